package plugin

import (
	"fmt"
	"testing"
)

// BenchmarkCopies finds the copies of a move in the target. The time grows in proportion to the number of objects.
func BenchmarkCopies(b *testing.B) {
	for _, number := range []int{500, 2000} {
		b.Run(fmt.Sprint(number), func(b *testing.B) {
			side := func() *scope {
				here := copied(true, "3").put("Machine").put("BareMetalHost")
				for i := range number / 2 {
					name := fmt.Sprintf("m-%d", i)
					here.put("Machine", named(name, "c")).put("Secret", belongingTo(name, "Machine", name))
				}
				return here
			}
			c := removing(side(), side())
			for b.Loop() {
				if got := len(c.copies()); got != number/2*2+2 {
					b.Fatalf("got %d copies", got)
				}
			}
		})
	}
}
