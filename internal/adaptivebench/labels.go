package adaptivebench

import (
	"cmp"
	"slices"
)

// lineHeight is how far two labels are apart at least.
const lineHeight = 14.0

// label stands right of the end of a line.
type label struct {
	y            float64
	text, colour string
}

// spreadLabels moves labels apart so that none covers another, and none leaves the panel as
// long as there is room.
func spreadLabels(labels []label, top, bottom float64) []label {
	slices.SortStableFunc(labels, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	limit := bottom
	for n := len(labels) - 1; n >= 0; n-- {
		labels[n].y = min(labels[n].y, limit)
		limit = labels[n].y - lineHeight
	}
	least := top
	for n := range labels {
		labels[n].y = max(labels[n].y, least)
		least = labels[n].y + lineHeight
	}
	return labels
}
