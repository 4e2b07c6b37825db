package timeoutbench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxSizes is how many sizes a run can have.
const MaxSizes = 8

// ParseSizes reads numbers of entries with commas between them, such as 10k,100k,1M, and returns them in ascending order.
// Each lies between [MinSize] and [MaxSize].
func ParseSizes(list string) ([]int, error) {
	var sizes []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := parseCount(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		if n < MinSize || n > MaxSize {
			return nil, fmt.Errorf("size %s: want %d to %s", strings.TrimSpace(text), MinSize, Count(MaxSize))
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	if sizes = slices.Compact(sizes); len(sizes) > MaxSizes {
		return nil, fmt.Errorf("%d sizes: want at most %d", len(sizes), MaxSizes)
	}
	return sizes, nil
}

func parseCount(text string) (int, error) {
	digits, unit := strings.ToLower(text), 1
	if rest, ok := strings.CutSuffix(digits, "k"); ok {
		digits, unit = rest, 1_000
	} else if rest, ok := strings.CutSuffix(digits, "m"); ok {
		digits, unit = rest, 1_000_000
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n > MaxSize {
		return 0, fmt.Errorf("size %q: want a number such as 5000, 10k or 1M, at most %s", text, Count(MaxSize))
	}
	return int(n) * unit, nil
}
