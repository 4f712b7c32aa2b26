package hostdata

import (
	"container/heap"
	"fmt"
	"math"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Name returns the name of the Metal3Data with an index of a template.
func Name(template string, index int32) string { return fmt.Sprintf("%s-%d", template, index) }

// Indexes are the used indexes of one template. Time and memory depend on the number of used indexes and not on their
// values, because any Metal3Data may have a large index. The zero value is ready to use.
type Indexes struct {
	used map[int32]bool

	// gaps has the first free index after each used index, and freed indexes. The lowest free index is 0 or among them.
	// Some occur twice, and some are used again.
	gaps gaps
}

// spareGaps is the number of gaps, besides two for each used index, above which outdated gaps are dropped.
const spareGaps = 16

// Take marks an index as used. It ignores a negative index.
func (x *Indexes) Take(index int32) {
	if index < 0 || x.used[index] {
		return
	}
	if x.used == nil {
		x.used = map[int32]bool{}
	}
	x.used[index] = true
	x.open(next(index))
}

// Free marks an index as free.
func (x *Indexes) Free(index int32) {
	if x.used[index] {
		delete(x.used, index)
		x.open(index)
	}
}

// Lowest returns the lowest free index.
func (x *Indexes) Lowest() int32 {
	if !x.used[0] {
		return 0
	}
	for x.used[x.gaps[0]] {
		heap.Pop(&x.gaps)
	}
	return x.gaps[0]
}

// open adds a gap if the index is free.
func (x *Indexes) open(index int32) {
	if x.used[index] {
		return
	}
	heap.Push(&x.gaps, index)
	if len(x.gaps) <= 2*len(x.used)+spareGaps {
		return
	}
	x.gaps = x.gaps[:0]
	for index := range x.used {
		if !x.used[next(index)] {
			x.gaps = append(x.gaps, next(index))
		}
	}
	heap.Init(&x.gaps)
}

// next returns the index after an index. 0 follows the largest index.
func next(index int32) int32 {
	if index == math.MaxInt32 {
		return 0
	}
	return index + 1
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
