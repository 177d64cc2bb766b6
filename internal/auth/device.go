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
	hash, clientID string
	status         DeviceStatus
	orgID, userID  *string
	expiresAt      time.Time
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
// are revoked. A code nobody gave out counts as expired.
func (s *Service) PollDevice(ctx context.Context, deviceCode string) (result DeviceResult, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		d, err := lockDevice(ctx, tx, hash(deviceCode))
		if fault.Is(err, fault.NotFound) {
			result = DeviceResult{Status: DeviceExpired}
			return nil
		}
		if err != nil {
			return err
		}
		result = DeviceResult{Status: d.state()}
		if result.Status != DeviceApproved {
			return nil
		}
		result.Key, result.RawKey, err = redeem(ctx, tx, d)
		return err
	})
	if result.Status == DeviceApproved {
		s.holders.clear()
	}
	return result, err
}

func redeem(ctx context.Context, tx *store.Tx, d deviceRow) (Key, string, error) {
	if err := markDeviceUsed(ctx, tx, d.hash); err != nil {
		return Key{}, "", err
	}
	u, err := userByID(ctx, tx, *d.orgID, *d.userID)
	if err != nil {
		return Key{}, "", err
	}
	// Who approved the login is who makes the key, not the program that polls.
	ctx = access.With(ctx, access.Caller{OrgID: u.OrgID, UserID: u.ID, Email: u.Email})
	name := []rune("login of " + d.clientID)
	n := NewKey{OrgID: u.OrgID, UserID: u.ID, Name: string(name[:min(len(name), maxName)])}
	revoked, err := revokeKeysNamed(ctx, tx, Key{OrgID: n.OrgID, UserID: n.UserID, Name: n.Name}, store.Now())
	if err != nil {
		return Key{}, "", err
	}
	for _, k := range revoked {
		if err := recordKey(ctx, tx, "auth.key.revoke", k); err != nil {
			return Key{}, "", err
		}
	}
	return createKey(ctx, tx, n)
}

// DecideDevice approves or denies the login with that user code on behalf of a
// person. A code that is unknown, decided or expired is fault.NotFound.
func (s *Service) DecideDevice(ctx context.Context, userCode string, u User, approve bool) error {
	status, action := DeviceDenied, "auth.device.deny"
	if approve {
		status, action = DeviceApproved, "auth.device.approve"
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		clientID, err := decideDevice(ctx, tx, strings.ToUpper(strings.TrimSpace(userCode)), u, status)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "No login waits for this code; start the login again")
		}
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: u.OrgID, Action: action, Target: u.target(),
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
