package inversion

import "testing"

func TestPair(*testing.T) {
	var p Pair
	p.Right()
	p.Left()
}
