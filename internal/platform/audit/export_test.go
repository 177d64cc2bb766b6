package audit

import "time"

// SettleAfter sets the age from which on entries are exported.
func (s *Service) SettleAfter(d time.Duration) { s.testSettled = &d }
