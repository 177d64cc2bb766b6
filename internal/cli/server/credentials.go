package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// Credentials are stored on this machine, in a file that only its user can read.
type Credentials struct {
	// DeviceID distinguishes this machine from others of the same user; see DeviceID.
	DeviceID string `json:"device_id,omitempty"`
	// Default is the address of the server of the last login.
	Default string           `json:"default,omitempty"`
	Servers map[string]Login `json:"servers,omitempty"`
}

// A Login is the stored key of one server, with the caller's name at the time of the
// login.
type Login struct {
	APIKey       string `json:"api_key"`
	Email        string `json:"email"`
	Organisation string `json:"organisation"`
}

// credentialsPath returns the path of the credentials, in the user's configuration
// folder.
func credentialsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "There is no folder to store the login in: %s", err)
	}
	return filepath.Join(dir, "whetstone", "credentials.json"), nil
}

// LoadCredentials returns empty credentials if none were stored, or if there is no
// folder for them: a process without a home, e.g. in a container, gets its key from the
// environment. An invalid file is fault.Conflict.
func LoadCredentials() (Credentials, error) {
	none := Credentials{Servers: map[string]Login{}}
	path, _ := credentialsPath()
	if path == "" {
		return none, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	found := none
	if err := json.Unmarshal(raw, &found); err != nil {
		return none, fault.New(fault.Conflict, "%s is not valid; remove it and log in again", path)
	}
	return found, nil
}

// Save stores the credentials with a rename, readable by this user only.
func (c Credentials) Save() error {
	path, err := credentialsPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return install.ReplaceFile(path, append(content, '\n'), 0o600)
}

// Remember stores a key as the login at a server, unless there is one already or the
// key is "". A default server is only set if there is none.
func Remember(address, key string, me client.Me) error {
	stored, err := LoadCredentials()
	if err != nil || key == "" || stored.Servers[address].APIKey != "" {
		return err
	}
	stored.Servers[address] = Login{APIKey: key, Email: me.User.Email, Organisation: me.Organisation.Name}
	if stored.Default == "" {
		stored.Default = address
	}
	return stored.Save()
}

// DeviceID identifies this machine, e.g. "laptop-k3v9x2ab": its host name, for people,
// with a random suffix. It is stored, so that it survives a change of the host name.
// Where it cannot be stored it is the host name alone, which is not unique: containers
// of one image often share it.
func DeviceID() (id string, unique bool) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = term.Cell(host)
	stored, err := LoadCredentials()
	if err != nil {
		return host, false
	}
	if stored.DeviceID == "" {
		stored.DeviceID = host + "-" + strings.ToLower(rand.Text()[:8])
		if stored.Save() != nil {
			return host, false
		}
	}
	return stored.DeviceID, true
}
