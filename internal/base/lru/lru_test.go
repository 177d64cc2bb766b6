package lru_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
)

func TestCache(t *testing.T) {
	c := lru.New[string, int](10)
	kept := func() string {
		var all []string
		for _, key := range []string{"d", "c", "b", "a"} {
			if v, ok := c.Get(key); ok {
				all = append(all, fmt.Sprint(key, v))
			}
		}
		return strings.Join(all, " ")
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"empty", func() {}, ""},
		{"full", func() { c.Put("a", 1, 4); c.Put("b", 2, 4) }, "b2 a1"},
		{"the last used stays", func() { c.Get("a"); c.Put("c", 3, 4) }, "c3 a1"},
		{"another value", func() { c.Put("a", 9, 6) }, "c3 a9"},
		{"removed", func() { c.Remove("c"); c.Remove("c") }, "a9"},
		{"too large", func() { c.Put("d", 4, 11) }, ""},
		{"room again", func() { c.Put("d", 5, 10) }, "d5"},
	} {
		step.do()
		if got := kept(); got != step.want {
			t.Errorf("%s: kept %q, want %q", step.name, got, step.want)
		}
	}
}

func TestCacheTogether(_ *testing.T) {
	c := lru.New[int, int](100)
	var g sync.WaitGroup
	for n := range 8 {
		g.Go(func() {
			for i := range 1000 {
				c.Put(i*n%50, i, 7)
				c.Get(i % 50)
				c.Remove(i * 3 % 50)
			}
		})
	}
	g.Wait()
}

func TestOnDrop(t *testing.T) {
	t.Parallel()
	c := lru.New[string, int](2)
	var dropped []int
	c.OnDrop(func(value int) { dropped = append(dropped, value) })
	c.Put("a", 1, 1)
	c.Put("a", 2, 1) // in place of 1
	c.Put("b", 3, 1)
	c.Get("a")
	c.Put("c", 4, 1) // too much: b was not used for longest
	c.Remove("a")
	c.Remove("a")
	if want := []int{1, 3, 2}; !slices.Equal(dropped, want) {
		t.Errorf("dropped %v, want %v", dropped, want)
	}
}
