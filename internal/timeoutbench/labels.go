package timeoutbench

import (
	"cmp"
	"slices"
)

// lineHeight is how far two labels are apart at least.
const lineHeight = 14.0

// spreadLabels moves labels apart so that none covers another, and none leaves the panel as long as
// there is room.
func spreadLabels(labels []label, top, bottom float64) []label {
	slices.SortStableFunc(labels, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	for n := range labels {
		if n > 0 {
			labels[n].y = max(labels[n].y, labels[n-1].y+lineHeight)
		}
	}
	limit := bottom
	for n := len(labels) - 1; n >= 0; n-- {
		labels[n].y = min(labels[n].y, limit)
		limit = labels[n].y - lineHeight
	}
	if len(labels) > 0 && labels[0].y < top {
		for n := range labels {
			labels[n].y = max(labels[n].y, top+float64(n)*lineHeight)
		}
	}
	return labels
}
