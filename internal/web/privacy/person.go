package privacy

import (
	"bufio"
	"context"
	"io"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const personFormat = "whetstone-person-export"

// A personFile is the shape of the file of a person. It is written by hand, row by
// row; the type is for the OpenAPI document.
type personFile struct {
	Person   personHead                  `json:"person"`
	Tables   map[string][]map[string]any `json:"tables" doc:"The rows that name you, by their tables"`
	Complete bool                        `json:"complete" doc:"Always true: a file without it broke off"`
}

// A personHead begins the file of a person.
type personHead struct {
	Format       string       `json:"format"`
	Version      int          `json:"version"`
	Schema       int64        `json:"schema"`
	GeneratedAt  httpapi.Time `json:"generated_at"`
	UserID       string       `json:"user_id"`
	Email        string       `json:"email"`
	Name         string       `json:"name"`
	Role         access.Role  `json:"role"`
	Organisation organisation `json:"organisation"`
}

// organisation is named so that the file can be understood by itself.
type organisation struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// WritePerson writes all rows that name a person as JSON, row by row. The last field is
// "complete", so that a file that broke off can be told.
func (s *Service) WritePerson(ctx context.Context, c access.Caller, w io.Writer) error {
	out := bufio.NewWriter(w)
	err := s.DB.Snapshot(ctx, func(tx *store.Tx) error { return writePerson(ctx, tx, c, out) })
	if err != nil {
		return err
	}
	return out.Flush()
}

// writePerson writes the file within a snapshot of the database. The rows are those
// of one moment, in the order of their keys.
func writePerson(ctx context.Context, tx *store.Tx, c access.Caller, out *bufio.Writer) error {
	schema, err := tx.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	p, err := newPlan(ctx, tx)
	if err != nil {
		return err
	}
	head, err := encode(personHead{
		Format: personFormat, Version: formatVersion, Schema: schema, GeneratedAt: httpapi.Time(store.Now()),
		UserID: c.UserID, Email: c.Email, Name: c.Name, Role: c.Role, Organisation: organisation{c.OrgID, c.OrgName},
	})
	if err != nil {
		return err
	}
	_, _ = out.WriteString(`{"person":` + string(head) + `,"tables":{`) // Flush has the error
	first := true
	for _, t := range p.exported() {
		// Tables without a column for people have nothing of a person.
		condition := t.ofPerson()
		if condition == "" {
			continue
		}
		if !first {
			_ = out.WriteByte(',')
		}
		first = false
		_, _ = out.WriteString("\n\"" + t.Name + `":[`)
		var line []byte
		more := false
		err := tx.DumpWhere(ctx, t.Table, condition+" ORDER BY "+t.order(), []any{c.OrgID, c.UserID},
			func(row []any) (err error) {
				if line, err = appendRow(line[:0], t.Columns, row); err != nil {
					return err
				}
				if more {
					_ = out.WriteByte(',')
				}
				more = true
				_ = out.WriteByte('\n')
				_, err = out.Write(line)
				return err
			})
		if err != nil {
			return err
		}
		_ = out.WriteByte(']')
	}
	_, err = out.WriteString("},\n\"complete\":true}\n")
	return err
}
