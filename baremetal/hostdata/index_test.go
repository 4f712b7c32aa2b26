package hostdata_test

import (
	"math/rand/v2"
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
		"an index that cannot be one":       {[]func(*hostdata.Indexes){take(-1), free(-1)}, 0},
		"several gaps, in any order of use": {[]func(*hostdata.Indexes){take(5, 3, 0), free(3), take(1)}, 2},
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

func TestIndexesAreTheLowestFree(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.Chosen(), 0))
	var x hostdata.Indexes
	used := map[int32]bool{}
	for range 20000 {
		switch index := random.Int32N(200); random.IntN(3) {
		case 0:
			x.Take(index)
			used[index] = true
		case 1:
			x.Free(index)
			delete(used, index)
		default:
			index = x.Lowest()
			for lower := range index {
				if !used[lower] {
					t.Fatalf("%d is the lowest free index, but %d is free", index, lower)
				}
			}
			if used[index] {
				t.Fatalf("index %d is in use", index)
			}
			x.Take(index)
			used[index] = true
		}
	}
}
