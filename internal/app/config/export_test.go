package config

// Explain says what is wrong with a data folder.
var Explain = (*Database).explain
