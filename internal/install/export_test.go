package install

// Before lets a test act before each step that a crash may come before.
func (f *Folder) Before(step func(name string)) { f.before = step }
