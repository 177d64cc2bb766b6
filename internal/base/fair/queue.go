// Package fair has a queue that many tenants share without one of them taking all
// of it: what waits is served round-robin by tenant, and a queue that is full drops
// from the longest line. A Gate and a GroupCommit have such a queue, by organisation.
// The queue of jobs is another: its fairness is in platform/jobs, turns.go and runs.go.
// It owns no tables.
package fair

import (
	"container/list"
	"iter"
	"slices"
)

// A Queue has a line for each tenant that has something waiting. It is not safe for
// concurrent use.
type Queue[T comparable] struct {
	// Before, if not nil, orders a line, which is in the order of arrival otherwise.
	Before func(a, b T) bool

	order    list.List // of *line[T], the next to be served first
	byTenant map[string]*list.Element
	size     int
}

type line[T comparable] struct {
	tenant  string
	waiting []T
}

// Len returns how many wait in all lines.
func (q *Queue[T]) Len() int { return q.size }

// Tenants returns how many lines there are.
func (q *Queue[T]) Tenants() int { return q.order.Len() }

// Push adds a value to the line of a tenant. A new line is the last to be served.
func (q *Queue[T]) Push(tenant string, v T) {
	if q.byTenant == nil {
		q.byTenant = map[string]*list.Element{}
	}
	if q.byTenant[tenant] == nil {
		q.byTenant[tenant] = q.order.PushBack(&line[T]{tenant: tenant})
	}
	l := lineOf[T](q.byTenant[tenant])
	at := len(l.waiting)
	for q.Before != nil && at > 0 && q.Before(v, l.waiting[at-1]) {
		at--
	}
	l.waiting = slices.Insert(l.waiting, at, v)
	q.size++
}

// Pop removes the next value to be served. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	l := lineOf[T](q.order.Front())
	v := l.waiting[0]
	q.Serve(l.tenant, v)
	return v
}

// All returns what waits in the order in which it is served: the first of each line,
// then the second of each. The queue must not change meanwhile.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for rank, left := 0, q.size; left > 0; rank++ {
			for e := q.order.Front(); e != nil; e = e.Next() {
				l := lineOf[T](e)
				if rank >= len(l.waiting) {
					continue
				}
				if !yield(l.waiting[rank]) {
					return
				}
				left--
			}
		}
	}
}

// Serve removes a value and makes the line of its tenant the last to be served.
func (q *Queue[T]) Serve(tenant string, v T) {
	if e := q.byTenant[tenant]; e != nil {
		q.order.MoveToBack(e)
		q.Remove(tenant, v)
	}
}

// Remove removes a value, which may be gone already.
func (q *Queue[T]) Remove(tenant string, v T) {
	e := q.byTenant[tenant]
	if e == nil {
		return
	}
	l := lineOf[T](e)
	at := slices.Index(l.waiting, v)
	switch {
	case at < 0:
		return
	case at == 0: // usually, and it moves nothing
		clear(l.waiting[:1])
		l.waiting = l.waiting[1:]
	default:
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	q.size--
	if len(l.waiting) == 0 {
		q.order.Remove(e)
		delete(q.byTenant, tenant)
	}
}

// Drop makes room for one more of a tenant: it removes the last of the longest line
// and returns it. It returns false if the tenant's own is as long.
func (q *Queue[T]) Drop(tenant string) (dropped T, ok bool) {
	longest := &line[T]{}
	for e := q.order.Front(); e != nil; e = e.Next() {
		if l := lineOf[T](e); len(l.waiting) > len(longest.waiting) {
			longest = l
		}
	}
	own := q.byTenant[tenant]
	if q.size == 0 || own != nil && len(lineOf[T](own).waiting) == len(longest.waiting) {
		return dropped, false
	}
	dropped = longest.waiting[len(longest.waiting)-1]
	q.Remove(longest.tenant, dropped)
	return dropped, true
}

func lineOf[T comparable](e *list.Element) *line[T] { return e.Value.(*line[T]) }
