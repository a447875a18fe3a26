package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are PostgreSQL's units and the exact ones. Both are powers of 1024,
// as PostgreSQL's are.
var sizeUnits = map[string]uint64{
	"": 1, "b": 1,
	"k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10,
	"m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
	"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30,
	"t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40,
}

// parseSize reads a whole number of bytes with a unit: 512MiB, 1GB, 65536.
func parseSize(text string) (uint64, error) {
	digits := strings.TrimLeft(text, "0123456789")
	number := text[:len(text)-len(digits)]
	n, err := strconv.ParseUint(number, 10, 64)
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(digits))]
	if err != nil || !known {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	if n > math.MaxUint64/unit {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return n * unit, nil
}
