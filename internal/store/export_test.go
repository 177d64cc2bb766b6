package store

// OldestBinary is oldestBinary.
var OldestBinary = oldestBinary
