package fair

import "context"

type tenantKey struct{}

// WithTenant returns a context whose calls wait in the line of a tenant.
func WithTenant(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tenantKey{}, name)
}

// tenant is whose line the calls of a context wait in; those without one share a line.
func tenant(ctx context.Context) string {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name
}
