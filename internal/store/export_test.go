package store

// OldestBinary is what migrations demand of a binary.
var OldestBinary = oldestBinary
