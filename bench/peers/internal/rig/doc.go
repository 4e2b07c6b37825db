// Package rig is what the programs that compare the product with its peers have in common: a closed loop of callers, the
// processor time and the processes that they are measured with, and a note of the machine's condition.
//
// The machine's mood changes by a factor of two between minutes, so every program measures its contenders in turns, in one
// run, and prints ratios of figures that stand next to each other. Absolute figures are for the machine that the note
// describes.
package rig
