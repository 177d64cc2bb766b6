package auth

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A DeviceLogin lets a program without a browser get a key, as in the OAuth 2.0
// device authorization grant (RFC 8628): the program shows the user code, and the
// person approves it in a browser. The differences from the RFC: the answers are this API's, and
// polling too fast isn't an error, since a rate limit takes care of that.
type DeviceLogin struct {
	DeviceCode string // the program's secret, with which it polls
	UserCode   string // what the person types, e.g. "BCDF-GHJK"
	ExpiresIn  time.Duration
	Interval   time.Duration
}

// DeviceStatus is the state of a login.
type DeviceStatus string

// The states of a login. A poll never returns deviceUsed.
const (
	DevicePending  DeviceStatus = "pending"
	DeviceApproved DeviceStatus = "approved"
	DeviceDenied   DeviceStatus = "denied"
	DeviceExpired  DeviceStatus = "expired"
	deviceUsed     DeviceStatus = "used"
)

// DeviceResult is the answer to a poll. The key is only in the first answer after
// the approval.
type DeviceResult struct {
	Status DeviceStatus
	RawKey string
	Key    Key
}

const (
	// The RFC leaves both to the server. Fifteen minutes are enough to find a browser and sign in
	// there.
	deviceLifetime = 15 * time.Minute
	deviceInterval = 5 * time.Second
	// userCodeAlphabet has no vowels, so that codes spell no words, and no
	// characters that look alike.
	userCodeAlphabet = "BCDFGHJKLMNPQRSTVWXZ"
)

// StartDevice starts a login for a program. The client id is what the program
// calls itself, and the device id distinguishes the machine from others that run
// the same program; "" if the program does not tell. Neither is verified. The user codes are short
// because people type them: 20^8 codes (35 bits), of which a few are pending at a time, behind a
// rate limit and a sign-in.
func (s *Service) StartDevice(ctx context.Context, clientID, deviceID string) (DeviceLogin, error) {
	if clientID == "" || utf8.RuneCountInString(clientID) > 200 {
		return DeviceLogin{}, fault.Invalid("client_id", "client_id must have 1 to 200 characters")
	}
	if utf8.RuneCountInString(deviceID) > 200 {
		return DeviceLogin{}, fault.Invalid("device_id", "device_id must have at most 200 characters")
	}
	d := DeviceLogin{
		DeviceCode: randomText(base62, keyLength),
		UserCode:   randomText(userCodeAlphabet, 4) + "-" + randomText(userCodeAlphabet, 4),
		ExpiresIn:  deviceLifetime,
		Interval:   deviceInterval,
	}
	row := deviceRow{hash: hash(d.DeviceCode), userCode: d.UserCode, clientID: clientID, status: DevicePending}
	if deviceID != "" {
		row.deviceID = &deviceID
	}
	now := store.Now()
	row.expiresAt = now.Add(d.ExpiresIn)
	return d, insertDevice(ctx, s.DB, row, now)
}

type deviceRow struct {
	hash, userCode, clientID string
	deviceID                 *string // nil if the client sent none
	status                   DeviceStatus
	orgID, userID            *string // of the person who decided
	keyID                    *string // the key with which they decided; nil on the server
	expiresAt                time.Time
}

// state is the status at this time. A code whose key was handed out counts as
// expired. Telling the two apart would tell a thief of the code that its key exists.
func (d deviceRow) state() DeviceStatus {
	if d.status == deviceUsed || !d.expiresAt.After(time.Now()) {
		return DeviceExpired
	}
	return d.status
}

// PollDevice returns the state of a login. Once it is approved, the next poll
// creates and returns its key, and revokes the keys of earlier logins of the same
// person with the same program on the same device. An unknown code counts as
// expired. Polls write nothing before the approval. The device code is the only secret: whoever has
// it gets the key.
func (s *Service) PollDevice(ctx context.Context, deviceCode string) (result DeviceResult, err error) {
	d, err := s.deviceLogin(ctx, deviceCode)
	if err != nil || d.state() != DeviceApproved {
		return DeviceResult{Status: d.state()}, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		result, err = redeem(ctx, tx, d)
		return err
	})
	// The revoked keys of earlier logins may be cached.
	if result.Status == DeviceApproved {
		s.keys.Clear()
	}
	return result, err
}

// DeviceProgress is the state of a login, without its key.
type DeviceProgress struct {
	Status   DeviceStatus
	UserCode string
	Approver string // the address of the person who approved it; "" before
}

// Device returns the state of a login without completing it, unlike PollDevice.
// An unknown code counts as expired.
func (s *Service) Device(ctx context.Context, deviceCode string) (DeviceProgress, error) {
	d, err := s.deviceLogin(ctx, deviceCode)
	p := DeviceProgress{Status: d.state(), UserCode: d.userCode}
	if err != nil || p.Status != DeviceApproved {
		return p, err
	}
	u, err := userByID(ctx, s.DB, *d.orgID, *d.userID)
	if fault.Is(err, fault.NotFound) { // removed since
		return DeviceProgress{Status: DeviceDenied, UserCode: d.userCode}, nil
	}
	p.Approver = u.Email
	return p, err
}

// deviceLogin looks a login up by its secret. For an unknown code it returns the
// zero row, which is expired.
func (s *Service) deviceLogin(ctx context.Context, deviceCode string) (deviceRow, error) {
	d, err := deviceByHash(ctx, s.DB, hash(deviceCode), "")
	if fault.Is(err, fault.NotFound) {
		return deviceRow{}, nil
	}
	return d, err
}

// redeem creates the key of an approved login, if the approver's key is still
// usable. It locks that key before the login, in the same order as a revocation. Two polls at once
// can't both get a key: the login's row is locked before its state is read again.
func redeem(ctx context.Context, tx *store.Tx, found deviceRow) (DeviceResult, error) {
	u, err := userByID(ctx, tx, *found.orgID, *found.userID)
	if fault.Is(err, fault.NotFound) { // removed since
		return DeviceResult{Status: DeviceDenied}, setDeviceStatus(ctx, tx, found.hash, DeviceDenied)
	}
	if err != nil {
		return DeviceResult{}, err
	}
	name := text.TruncateRunes("login of "+found.clientID, maxName)
	n := NewKey{OrgID: u.OrgID, UserID: u.ID, Name: name, login: true, deviceID: found.deviceID}
	usable := true
	// Without a keyID the operator has approved on the server.
	if found.keyID != nil {
		if usable, err = n.approvedBy(ctx, tx, u, *found.keyID); err != nil {
			return DeviceResult{}, err
		}
	}
	d, err := deviceByHash(ctx, tx, found.hash, tx.Dialect().ForUpdate())
	if err != nil || d.state() != DeviceApproved {
		return DeviceResult{Status: d.state()}, err
	}
	// The approver's key was revoked, has expired or was narrowed since.
	if !usable {
		return DeviceResult{Status: DeviceDenied}, setDeviceStatus(ctx, tx, d.hash, DeviceDenied)
	}
	if err := setDeviceStatus(ctx, tx, d.hash, deviceUsed); err != nil {
		return DeviceResult{}, err
	}
	// The audit log names the person who approved, not the program that polls.
	by := access.Caller{OrgID: u.OrgID, UserID: u.ID, Email: u.Email}
	if d.keyID != nil {
		by.KeyID = *d.keyID
	}
	ctx = access.With(ctx, by)
	if err := revokeEarlierLogins(ctx, tx, n); err != nil {
		return DeviceResult{}, err
	}
	k, raw, err := insertNewKey(ctx, tx, n)
	return DeviceResult{Status: DeviceApproved, Key: k, RawKey: raw}, err
}

// approvedBy gives the login the permissions and the lifetime of its approver's
// key, and reports whether that key is active and has all permissions of its
// holder's role. These may have changed between the approval and the poll.
func (k *NewKey) approvedBy(ctx context.Context, tx *store.Tx, u User, keyID string) (usable bool, err error) {
	approver, err := keyByID(ctx, tx, u.OrgID, keyID, tx.Dialect().ForUpdate())
	if err != nil {
		return false, err
	}
	allowed := narrow(u.Role, approver.Permissions)
	if approver.Permissions != nil {
		k.Permissions = allowed
	}
	usable = approver.State() == keyActive && len(allowed) == len(u.Role.Permissions())
	return usable, k.inherit(approver)
}

// DecideDevice lets the operator approve or deny the login with that user code on
// behalf of a person. A code that is unknown, decided or expired is
// fault.NotFound. The operator has no session, so there is no key to check.
func (s *Service) DecideDevice(ctx context.Context, userCode string, u User, approve bool) error {
	return s.decide(ctx, deviceDecision{userCode: strings.ToUpper(strings.TrimSpace(userCode)), user: u, approve: approve})
}

// A deviceDecision approves or denies a pending login.
type deviceDecision struct {
	userCode string
	user     User
	keyID    *string // nil if the operator decides
	approve  bool
}

func (d deviceDecision) status() DeviceStatus {
	if d.approve {
		return DeviceApproved
	}
	return DeviceDenied
}

// decide records the decision. The update matches only a pending login, so of two people one
// decides.
func (s *Service) decide(ctx context.Context, d deviceDecision) error {
	action := "auth.device.deny"
	if d.approve {
		action = "auth.device.approve"
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		clientID, err := updatePendingDevice(ctx, tx, d)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "No login waits for this code; start the login again")
		}
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: d.user.OrgID, Action: action, Target: d.user.target(),
			Detail: audit.Detail{"program": clientID},
		})
	})
}
