package timeoutbench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// bytesPerEntry is how many bytes an entry may take while it is measured, together with its garbage
// until the next collection: that of the largest contender, rounded up.
const bytesPerEntry = 1000

// CheckMemory reports whether this machine has the memory to measure so many entries, as far as
// that is known.
func CheckMemory(size int) error {
	file, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil // not Linux: try it
	}
	return checkMemoryIn(string(file), size)
}

func checkMemoryIn(meminfo string, size int) error {
	for line := range strings.Lines(meminfo) {
		rest, ok := strings.CutPrefix(line, "MemAvailable:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return nil // of an unknown form
		}
		if free, need := kb>>10, int64(size)*bytesPerEntry>>20; free < need {
			return fmt.Errorf("%s pending entries want about %d MiB of memory, and %d MiB are free", Count(size), need, free)
		}
	}
	return nil
}
