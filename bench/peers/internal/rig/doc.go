// Package rig contains what the programs that compare the product with its peers share: a closed
// loop of callers ([Load]), the measurement of processor time and processes, processes of the program
// itself ([Worker]), and a record of the machine's [Condition].
//
// The speed of the machine varies by a factor of two between minutes, so every program measures its
// contenders in turns, in one run, and prints ratios of figures of the same round. Absolute figures
// are for the machine that the record describes.
package rig
