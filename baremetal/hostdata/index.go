package hostdata

import (
	"container/heap"
	"fmt"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Name returns the name of the Metal3Data with an index of a template.
func Name(template string, index int32) string { return fmt.Sprintf("%s-%d", template, index) }

// Indexes holds the indexes of one template that are in use. Finding the lowest free index costs the logarithm of the
// number of gaps. The zero value is ready to use.
type Indexes struct {
	used map[int32]bool

	// next is the first index that was never in use. All free indexes below it are in gaps, some of them twice, and some
	// that are in use again.
	next int32
	gaps gaps
}

// Take marks an index as in use. A negative index is ignored.
func (x *Indexes) Take(index int32) {
	if index < 0 {
		return
	}
	if x.used == nil {
		x.used = map[int32]bool{}
	}
	x.used[index] = true
	for ; x.next <= index; x.next++ {
		if !x.used[x.next] {
			heap.Push(&x.gaps, x.next)
		}
	}
}

// Free marks an index as free.
func (x *Indexes) Free(index int32) {
	if x.used[index] {
		delete(x.used, index)
		heap.Push(&x.gaps, index)
	}
}

// Lowest returns the lowest free index.
func (x *Indexes) Lowest() int32 {
	for len(x.gaps) > 0 {
		if lowest := x.gaps[0]; !x.used[lowest] {
			return lowest
		}
		heap.Pop(&x.gaps)
	}
	return x.next
}

// gaps implements heap.Interface.
type gaps []int32

func (g gaps) Len() int           { return len(g) }
func (g gaps) Less(i, j int) bool { return g[i] < g[j] }
func (g gaps) Swap(i, j int)      { g[i], g[j] = g[j], g[i] }

// Push implements heap.Interface.
func (g *gaps) Push(index any) {
	if index, isIndex := index.(int32); isIndex {
		*g = append(*g, index)
	}
}

// Pop implements heap.Interface.
func (g *gaps) Pop() any {
	last := len(*g) - 1
	index := (*g)[last]
	*g = (*g)[:last]
	return index
}

// TemplateOf returns the name of the template of a Metal3Data or a Metal3DataClaim. Empty if it names none.
func TemplateOf(object any) string {
	var template *infrav1.Metal3ObjectRef
	switch object := object.(type) {
	case *infrav1.Metal3Data:
		template = object.Spec.Template
	case *infrav1.Metal3DataClaim:
		template = object.Spec.Template
	}
	if template == nil {
		return ""
	}
	return template.Name
}
