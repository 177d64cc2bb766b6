package auth

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A DeviceLogin lets a program without a browser get a key: the person reads
// the user code there and approves it here.
type DeviceLogin struct {
	DeviceCode string // the program's secret
	UserCode   string // what the person types
	ExpiresIn  time.Duration
	Interval   time.Duration
}

// DeviceStatus is what a poll finds.
type DeviceStatus string

// What a poll finds.
const (
	DevicePending  DeviceStatus = "pending"
	DeviceApproved DeviceStatus = "approved"
	DeviceDenied   DeviceStatus = "denied"
	DeviceExpired  DeviceStatus = "expired"
	deviceUsed     DeviceStatus = "used"
)

// DeviceResult is the answer to a poll; the key is set once, when approved.
type DeviceResult struct {
	Status DeviceStatus
	RawKey string
	Key    Key
}

const (
	deviceLifetime = 15 * time.Minute
	deviceInterval = 5 * time.Second
	// userCodeAlphabet has no vowels, so no words, and no look-alikes.
	userCodeAlphabet = "BCDFGHJKLMNPQRSTVWXZ"
)

// StartDevice begins a login for the program that calls itself clientID.
func (s *Service) StartDevice(ctx context.Context, clientID string) (DeviceLogin, error) {
	if clientID == "" || utf8.RuneCountInString(clientID) > 200 {
		return DeviceLogin{}, fault.Invalid("client_id", "client_id must have 1 to 200 characters")
	}
	d := DeviceLogin{
		DeviceCode: randomText(base62, keyLength),
		UserCode:   randomText(userCodeAlphabet, 4) + "-" + randomText(userCodeAlphabet, 4),
		ExpiresIn:  deviceLifetime,
		Interval:   deviceInterval,
	}
	return d, insertDevice(ctx, s.DB, d, clientID, store.Now())
}

type deviceRow struct {
	hash, userCode, clientID string
	status                   DeviceStatus
	orgID, userID            *string // of who decided
	keyID                    *string // with which they decided; nil: on the server
	expiresAt                time.Time
}

// state is the status with time taken into account. A code whose key was
// handed out is as good as expired.
func (d deviceRow) state() DeviceStatus {
	if d.status == deviceUsed || !d.expiresAt.After(time.Now()) {
		return DeviceExpired
	}
	return d.status
}

// PollDevice tells the program where its login stands. An approved login
// gives the key, once; keys of earlier logins of the same person and program
// are revoked. A code nobody gave out counts as expired. It writes nothing
// until the login is approved.
func (s *Service) PollDevice(ctx context.Context, deviceCode string) (result DeviceResult, err error) {
	d, err := s.deviceLogin(ctx, deviceCode)
	if err != nil || d.state() != DeviceApproved {
		return DeviceResult{Status: d.state()}, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		result, err = redeem(ctx, tx, d)
		return err
	})
	if result.Status == DeviceApproved {
		s.holders.clear()
	}
	return result, err
}

// DeviceProgress says where a login stands, and changes nothing.
type DeviceProgress struct {
	Status   DeviceStatus
	UserCode string
	Approver string // the address of who approved it, "" before
}

// Device tells where a login stands that PollDevice can end. A code nobody gave
// out counts as expired.
func (s *Service) Device(ctx context.Context, deviceCode string) (DeviceProgress, error) {
	d, err := s.deviceLogin(ctx, deviceCode)
	p := DeviceProgress{Status: d.state(), UserCode: d.userCode}
	if err != nil || p.Status != DeviceApproved {
		return p, err
	}
	u, err := userByID(ctx, s.DB, *d.orgID, *d.userID)
	p.Approver = u.Email
	return p, err
}

// deviceLogin finds a login by its secret; a login that expired for a code
// nobody gave out.
func (s *Service) deviceLogin(ctx context.Context, deviceCode string) (deviceRow, error) {
	d, err := deviceByHash(ctx, s.DB, hash(deviceCode), "")
	if fault.Is(err, fault.NotFound) {
		return deviceRow{}, nil
	}
	return d, err
}

// redeem gives an approved login its key, if the key that approved it is still
// good. That one is locked first, as by its revocation.
func redeem(ctx context.Context, tx *store.Tx, found deviceRow) (DeviceResult, error) {
	u, err := userByID(ctx, tx, *found.orgID, *found.userID)
	if err != nil {
		return DeviceResult{}, err
	}
	name := []rune("login of " + found.clientID)
	n := NewKey{OrgID: u.OrgID, UserID: u.ID, Name: string(name[:min(len(name), maxName)]), login: true}
	good := true
	if found.keyID != nil {
		if good, err = n.approvedBy(ctx, tx, u, *found.keyID); err != nil {
			return DeviceResult{}, err
		}
	}
	d, err := deviceByHash(ctx, tx, found.hash, tx.Dialect().ForUpdate())
	if err != nil || d.state() != DeviceApproved {
		return DeviceResult{Status: d.state()}, err
	}
	if !good {
		return DeviceResult{Status: DeviceDenied}, setDeviceStatus(ctx, tx, d.hash, DeviceDenied)
	}
	if err := setDeviceStatus(ctx, tx, d.hash, deviceUsed); err != nil {
		return DeviceResult{}, err
	}
	// Who approved the login is who makes the key, not the program that polls.
	by := access.Caller{OrgID: u.OrgID, UserID: u.ID, Email: u.Email}
	if d.keyID != nil {
		by.KeyID = *d.keyID
	}
	ctx = access.With(ctx, by)
	if err := revokeEarlier(ctx, tx, n); err != nil {
		return DeviceResult{}, err
	}
	k, raw, err := createKey(ctx, tx, n)
	return DeviceResult{Status: DeviceApproved, Key: k, RawKey: raw}, err
}

// approvedBy gives the login what its approver's key has, and reports whether
// that key is still good and not narrowed.
func (k *NewKey) approvedBy(ctx context.Context, tx *store.Tx, u User, keyID string) (good bool, err error) {
	approver, err := keyByID(ctx, tx, u.OrgID, keyID, tx.Dialect().ForUpdate())
	if err != nil {
		return false, err
	}
	allowed := narrow(u.Role, approver.Permissions)
	if approver.Permissions != nil {
		k.Permissions = allowed
	}
	good = approver.State() == "active" && len(allowed) == len(u.Role.Permissions())
	return good, k.inherit(approver)
}

// revokeEarlier revokes the keys of earlier logins of the same person and program.
// What those approved stays: nothing was stolen.
func revokeEarlier(ctx context.Context, tx *store.Tx, n NewKey) error {
	revoked, err := revokeKeysNamed(ctx, tx, Key{OrgID: n.OrgID, UserID: n.UserID, Name: n.Name}, store.Now())
	if err != nil {
		return err
	}
	for _, k := range revoked {
		if err := recordKey(ctx, tx, "auth.key.revoke", k); err != nil {
			return err
		}
	}
	return nil
}

// DecideDevice approves or denies the login with that user code for the operator,
// on behalf of a person. A code that is unknown, decided or expired is
// fault.NotFound.
func (s *Service) DecideDevice(ctx context.Context, userCode string, u User, approve bool) error {
	return s.decide(ctx, deviceDecision{userCode: strings.ToUpper(strings.TrimSpace(userCode)), user: u, approve: approve})
}

// deviceDecision is the answer to a login that waits.
type deviceDecision struct {
	userCode string
	user     User
	keyID    *string // nil: the operator's
	approve  bool
}

func (d deviceDecision) status() DeviceStatus {
	if d.approve {
		return DeviceApproved
	}
	return DeviceDenied
}

func (s *Service) decide(ctx context.Context, d deviceDecision) error {
	action := "auth.device.deny"
	if d.approve {
		action = "auth.device.approve"
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		clientID, err := decideDevice(ctx, tx, d)
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

// Sweep removes logins and sessions that are over. It is run on a schedule.
func (s *Service) Sweep(ctx context.Context) error {
	now := store.Now()
	if err := deleteOverSessions(ctx, s.DB, now); err != nil {
		return err
	}
	return deleteOverDevices(ctx, s.DB, now.Add(-deviceLifetime))
}
