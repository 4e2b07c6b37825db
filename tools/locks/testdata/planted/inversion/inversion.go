// Package inversion takes two locks in both orders, one after the other, so that nothing stops.
package inversion

import "sync"

type Pair struct{ left, right sync.Mutex }

func (p *Pair) Right() {
	p.left.Lock()
	defer p.left.Unlock()
	p.right.Lock()
	defer p.right.Unlock()
}

func (p *Pair) Left() {
	p.right.Lock()
	defer p.right.Unlock()
	p.left.Lock()
	defer p.left.Unlock()
}
