package svgchart

import (
	"cmp"
	"slices"
)

// lineHeight is how far two labels are apart at least.
const lineHeight = 14.0

// Label stands right of the end of a line.
type Label struct {
	Y            float64
	Text, Colour string
}

// spreadLabels moves labels apart so that none covers another, and none leaves the panel
// while all fit.
func spreadLabels(labels []Label, top, bottom float64) []Label {
	slices.SortStableFunc(labels, func(a, b Label) int { return cmp.Compare(a.Y, b.Y) })
	limit := bottom
	for n := len(labels) - 1; n >= 0; n-- {
		labels[n].Y = min(labels[n].Y, limit)
		limit = labels[n].Y - lineHeight
	}
	least := top
	for n := range labels {
		labels[n].Y = max(labels[n].Y, least)
		least = labels[n].Y + lineHeight
	}
	return labels
}
