package main

import "fmt"

// didYouMean returns a question that names the known name nearest to the one
// that was typed, "" when none is near.
func didYouMean(typed string, known []string, prefix string) string {
	if best := nearest(typed, known); best != "" {
		return fmt.Sprintf("Did you mean %s? ", prefix+best)
	}
	return ""
}

// nearest returns the known name that is most like the one that was typed, "" when
// none is.
func nearest(typed string, known []string) string {
	best, distance := "", len(typed)/3+1
	for _, name := range known {
		if d := editDistance(typed, name); d <= distance && (best == "" || d < distance) {
			best, distance = name, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete or replace to get from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
