package seal

// A Row has the texts of a row that are sealed in the database, by column. Each is bound
// to its column and row, so one that is copied elsewhere does not decrypt.
type Row struct {
	Table, ID string
	Texts     map[string]*string // nil ones are null
}

// each replaces the texts by what fn makes of them.
func (r Row) each(fn func(text []byte, p Place) ([]byte, error)) error {
	for column, text := range r.Texts {
		if text == nil {
			continue
		}
		changed, err := fn([]byte(*text), Place{Table: r.Table, Column: column, Row: r.ID})
		if err != nil {
			return err
		}
		*text = string(changed)
	}
	return nil
}

// SealRow encrypts the texts.
func (k *Keyring) SealRow(r Row) {
	_ = r.each(func(text []byte, p Place) ([]byte, error) { return k.Seal(text, p), nil }) // it never fails
}

// OpenRow decrypts the texts of a stored row.
func (k *Keyring) OpenRow(r Row) error { return r.each(k.Open) }

// RenewRow encrypts with the first key every text that another key encrypted, and
// returns their number. A text that cannot be decrypted is an error.
func (k *Keyring) RenewRow(r Row) (count int, err error) {
	err = r.each(func(text []byte, p Place) ([]byte, error) {
		renewed, changed, err := k.Renew(text, p)
		if changed {
			count++
		}
		return renewed, err
	})
	return count, err
}
