package oidc

import "time"

// SetNow replaces the clock of the cache.
func (k *Keys) SetNow(now func() time.Time) { k.now = now }
