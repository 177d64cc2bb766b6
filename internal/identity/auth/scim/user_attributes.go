package scim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
)

// truth is a boolean that may come as text: Entra ID sends "False".
type truth bool

func (t *truth) UnmarshalJSON(raw []byte) error {
	switch strings.ToLower(string(bytes.Trim(raw, `"`))) {
	case "true":
		*t = true
	case "false", "null":
		*t = false
	default:
		return refuse(invalidValue, "a boolean must be true or false")
	}
	return nil
}

// userInput is a user as a provider sends it. Other attributes are ignored.
type userInput struct {
	UserName    string   `json:"userName"`
	ExternalID  *string  `json:"externalId"`
	Active      *truth   `json:"active"`
	Name        fullName `json:"name"`
	DisplayName string   `json:"displayName"`
	Emails      []email  `json:"emails"`
}

// replace sets what a provider sent. The id of the provider and whether the user is
// active stay as they are if they are left out. It is PUT, and the first push of a user.
func (a *attributes) replace(in userInput) error {
	a.UserName = in.UserName
	a.profile = profile{Name: in.Name, DisplayName: in.DisplayName, Emails: in.Emails}
	if in.ExternalID != nil {
		a.ExternalID = in.ExternalID
	}
	if in.Active != nil {
		a.Active = bool(*in.Active)
	}
	return a.check()
}

// check validates the user as they would be after the change, and that they have a usable address.
func (a *attributes) check() error {
	if a.ExternalID != nil && *a.ExternalID == "" {
		a.ExternalID = nil
	}
	// Addresses that are cleared come as empty values.
	a.Emails = slices.DeleteFunc(a.Emails, func(e email) bool { return e.Value == "" })
	if strings.TrimSpace(a.UserName) == "" {
		return refuse(invalidValue, "userName is required")
	}
	if len(a.Emails) > maxEmails {
		return refuse(invalidValue, "emails must be at most %d", maxEmails)
	}
	external := ""
	if a.ExternalID != nil {
		external = *a.ExternalID
	}
	for name, value := range map[string]string{
		"userName": a.UserName, "externalId": external, "displayName": a.DisplayName, "name.formatted": a.Name.Formatted,
		"name.givenName": a.Name.GivenName, "name.familyName": a.Name.FamilyName,
	} {
		if err := checkText(name, value); err != nil {
			return err
		}
	}
	for _, e := range a.Emails {
		if err := checkText("emails.value", e.Value); err != nil {
			return err
		}
		if err := checkText("emails.type", e.Type); err != nil {
			return err
		}
	}
	_, err := a.address()
	return err
}

// checkText refuses what is too long for a name or cannot be shown on one line. Names are shown on
// pages and in terminals.
func checkText(name, value string) error {
	if utf8.RuneCountInString(value) > maxText {
		return refuse(invalidValue, "%s must have at most %d characters", name, maxText)
	}
	if !text.Valid(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return refuse(invalidValue, "%s must not have control characters", name)
	}
	return nil
}

// address is that of the member: the primary one, else that of work, else the first,
// else the user name. The member's address decides which existing member they are, so the choice
// must not depend on the order of a map or on chance.
func (a *attributes) address() (string, error) {
	chosen, best := "", 0
	for _, e := range a.Emails {
		rank := 1
		switch {
		case bool(e.Primary):
			rank = 3
		case strings.EqualFold(e.Type, "work"):
			rank = 2
		}
		if rank > best {
			chosen, best = e.Value, rank
		}
	}
	address, err := auth.NormaliseEmail(strings.TrimSpace(cmp.Or(chosen, a.UserName)))
	switch {
	case auth.IsMachineAddress(address):
		return "", refuse(invalidValue, "%s holds the keys of machines, and is no person", address)
	case err != nil && chosen == "":
		return "", refuse(invalidValue, "emails must have an address, since userName is none, like ada@example.org")
	case err != nil:
		return "", refuse(invalidValue, "emails.value must be an address, like ada@example.org")
	}
	return address, nil
}

// maxMemberName is how many characters the name of a member has.
const maxMemberName = 100

// memberName is how the member is called; "" for a part of the address.
func (a *attributes) memberName() string {
	full := strings.TrimSpace(a.Name.GivenName + " " + a.Name.FamilyName)
	return text.TruncateRunes(strings.TrimSpace(cmp.Or(a.DisplayName, a.Name.Formatted, full)), maxMemberName)
}

// sameAs reports whether two descriptions are equal, so that nothing needs to be written. The
// encoding is canonical: fields in order, empty ones left out.
func (a *attributes) sameAs(b attributes) bool {
	one, _ := json.Marshal(a) // made of text and booleans
	other, _ := json.Marshal(b)
	return bytes.Equal(one, other)
}
