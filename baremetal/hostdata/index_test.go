package hostdata_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
)

func TestIndexes(t *testing.T) {
	take := func(indexes ...int32) func(*hostdata.Indexes) {
		return func(x *hostdata.Indexes) {
			for _, index := range indexes {
				x.Take(index)
			}
		}
	}
	free := func(index int32) func(*hostdata.Indexes) { return func(x *hostdata.Indexes) { x.Free(index) } }
	cases := map[string]struct {
		steps []func(*hostdata.Indexes)
		want  int32
	}{
		"none in use":                       {want: 0},
		"the first ones in use":             {[]func(*hostdata.Indexes){take(0, 1, 2)}, 3},
		"a gap":                             {[]func(*hostdata.Indexes){take(0, 2)}, 1},
		"a large gap":                       {[]func(*hostdata.Indexes){take(1000)}, 0},
		"a gap that was filled":             {[]func(*hostdata.Indexes){take(0, 2, 1)}, 3},
		"taken twice":                       {[]func(*hostdata.Indexes){take(0, 0, 1)}, 2},
		"freed":                             {[]func(*hostdata.Indexes){take(0, 1, 2), free(1)}, 1},
		"the last one freed":                {[]func(*hostdata.Indexes){take(0, 1, 2), free(2)}, 2},
		"freed and taken again":             {[]func(*hostdata.Indexes){take(0, 1, 2), free(1), take(1)}, 3},
		"freed, taken and freed again":      {[]func(*hostdata.Indexes){take(0, 1), free(0), take(0), free(0)}, 0},
		"freed although it was not in use":  {[]func(*hostdata.Indexes){take(0), free(5)}, 1},
		"a negative index":                  {[]func(*hostdata.Indexes){take(-1), free(-1)}, 0},
		"several gaps, in any order of use": {[]func(*hostdata.Indexes){take(5, 3, 0), free(3), take(1)}, 2},
		"the largest index":                 {[]func(*hostdata.Indexes){take(math.MaxInt32)}, 0},
		"the largest index after others":    {[]func(*hostdata.Indexes){take(0, 1, math.MaxInt32, 3)}, 2},
		"the largest index freed": {
			[]func(*hostdata.Indexes){take(0, math.MaxInt32, math.MaxInt32-1), free(math.MaxInt32), take(1)}, 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var x hostdata.Indexes
			for _, step := range tc.steps {
				step(&x)
			}
			for range 2 {
				if got := x.Lowest(); got != tc.want {
					t.Fatalf("the lowest free index is %d, want %d", got, tc.want)
				}
			}
		})
	}
}

// TestIndexesAreTheLowestFree compares with a search through all indexes in use, for templates whose indexes are dense,
// sparse, or anywhere.
func TestIndexesAreTheLowestFree(t *testing.T) {
	for name, limit := range map[string]int32{"dense": 200, "sparse": 100_000, "anywhere": math.MaxInt32} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed.Chosen(), 0))
			var x hostdata.Indexes
			used := map[int32]bool{}
			for range 4000 {
				switch choice := random.IntN(4); {
				case choice == 0:
					index := random.Int32N(limit)
					x.Take(index)
					used[index] = true
				case choice == 1 && len(used) > 0:
					sorted := slices.Sorted(maps.Keys(used))
					index := sorted[random.IntN(len(sorted))]
					x.Free(index)
					delete(used, index)
				default:
					got, want := x.Lowest(), lowest(used)
					if got != want {
						t.Fatalf("the lowest free index is %d, want %d", got, want)
					}
					x.Take(got)
					used[got] = true
				}
			}
		})
	}
}

func lowest(used map[int32]bool) int32 {
	index := int32(0)
	for used[index] {
		index++
	}
	return index
}

// TestIndexesCostByClaims bounds the memory by the indexes in use: neither a large index nor the indexes that were in
// use before count.
func TestIndexesCostByClaims(t *testing.T) {
	var x hostdata.Indexes
	const count = 1000
	for i := range int32(count) {
		x.Take(math.MaxInt32 - 1000*i)
	}
	for range 100_000 {
		x.Take(7)
		x.Free(7)
	}
	if remembered := x.Remembered(); remembered > 4*count {
		t.Errorf("%d indexes are in memory for %d that are in use", remembered, count)
	}
	for i := range int32(count) {
		x.Free(math.MaxInt32 - 1000*i)
	}
	if remembered := x.Remembered(); remembered > 20 {
		t.Errorf("%d indexes are in memory although none is in use", remembered)
	}
}
