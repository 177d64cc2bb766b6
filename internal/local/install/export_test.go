package install

// Before calls a function before each step, so that a test can crash there.
func (f *Folder) Before(step func(name string)) { f.onStep = step }
