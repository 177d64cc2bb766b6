package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/web/format"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// alertsView lists the rules with their state, and the newest events of all.
type alertsView struct {
	Size   // number of rules
	Rules  []ruleRow
	Events []alerts.Event
}

// Transitions are the values of the filter of events.
func (alertsView) Transitions() []string {
	return []string{string(alerts.Firing), string(alerts.Resolved), string(alerts.Reminder)}
}

// A ruleRow is a rule for display. State is that of the worst skill: firing if it
// fires for any of them.
type ruleRow struct {
	alerts.Rule
	Skill   string // name of the skill; "" for all
	When    string // the condition in words
	Where   string // the address, masked; "" for the owners of the skill
	State   string // firing, ok, not_evaluated_yet or disabled
	Firing  []overview.Firing
	Warning []string
}

// notEvaluated is the state of a rule until its first evaluation: "ok" would be wrong,
// as it may be about to fire.
const notEvaluated = "not_evaluated_yet"

// NotEvaluated reports whether the rule still waits for its first evaluation.
func (r ruleRow) NotEvaluated() bool { return r.State == notEvaluated }

// Rows of a page.
const (
	rulesShown  = 25
	eventsShown = 20
)

// handleAlerts lists the rules and the newest events. Events are of all rules,
// whichever page of rules is shown.
func (s *Service) handleAlerts(v *visit) (answer, error) {
	rules, total, err := s.Alerts.Rules(v.Context(), v.Caller.OrgID, v.list.Rows(rulesShown))
	if err != nil {
		return answer{}, err
	}
	view := alertsView{Size: Size{Total: total, PerPage: rulesShown}}
	if view.Rules, err = s.ruleRows(v, rules); err != nil {
		return answer{}, err
	}
	view.Events, _, err = s.Alerts.Events(v.Context(), v.Caller.OrgID, eventFilter(v, eventsShown, 0))
	return show("alerts", "Alerts", view), err
}

// eventFilter returns the filter of the history from the query of the page. The
// export uses it, too, so that it has what the page shows.
func eventFilter(v *visit, limit, offset int) alerts.EventFilter {
	return alerts.EventFilter{
		Transition: v.URL.Query().Get("event"), Search: strings.TrimSpace(v.URL.Query().Get("skill")),
		Page: store.Page{Limit: limit, Offset: offset},
	}
}

// ruleRows adds names, states and firing alerts to rules. A skill that is gone has no
// name.
func (s *Service) ruleRows(v *visit, rules []alerts.Rule) ([]ruleRow, error) {
	// All of the organisation at once: there are few, and rules many.
	firing, err := s.Overview.Firing(v.Context(), v.Caller.OrgID)
	if err != nil {
		return nil, err
	}
	evaluated, err := s.Alerts.Evaluated(v.Context(), v.Caller.OrgID)
	if err != nil {
		return nil, err
	}
	rows := make([]ruleRow, len(rules))
	for i, r := range rules {
		row := ruleRow{
			Rule: r, When: format.Condition(r), Where: notify.Mask(r.Channel, r.Address), State: "ok",
			Warning: s.Alerts.Warnings(r),
		}
		if r.Channel == alerts.ToOwners {
			row.Where = ""
		}
		if !slices.Contains(evaluated, r.ID) {
			row.State = notEvaluated
		}
		for _, f := range firing {
			if f.RuleID == r.ID {
				row.Firing, row.State = append(row.Firing, f), "firing"
			}
		}
		// Last, since a disabled rule may still have firing states.
		if !r.Enabled {
			row.State = "disabled"
		}
		if r.SkillID != nil {
			p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, *r.SkillID)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return nil, err
			}
			row.Skill = p.Name
		}
		rows[i] = row
	}
	return rows, nil
}

// alertNewView is the form of a new rule with its preview.
type alertNewView struct {
	Form     alertForm
	Channels []channelChoice
	Skills   skillChoices
	Preview  preview
	Mail     bool // a mail server is configured
}

// A channelChoice is an option of the select of channels. The text names the
// product; the value is the API's word.
type channelChoice struct {
	Channel notify.Channel
	Text    string
}

// channelChoices are the channels in the order of the form. The owners come first:
// their addresses are known already.
var channelChoices = []channelChoice{
	{alerts.ToOwners, "Owners of the skill, by email"},
	{notify.Webhook, "Webhook"},
	{notify.ChatA, "Slack"},
	{notify.ChatB, "Discord"},
	{notify.Email, "Email"},
}

// channelName returns the name of a channel, e.g. "Slack" for chat_a.
func channelName(c notify.Channel) string {
	for _, choice := range channelChoices {
		if choice.Channel == c {
			return choice.Text
		}
	}
	return string(c)
}

// ChannelName returns the name of the rule's channel.
func (r ruleRow) ChannelName() string { return channelName(r.Channel) }

// handleAlertNew shows the form with a sensible rule: sequential, which raises few
// false alarms, and to the owners of skills if there is a mail server. ?skill=ID
// preselects a skill.
func (s *Service) handleAlertNew(v *visit) (answer, error) {
	// Percentages as text, as a person would type them.
	form := alertForm{
		Type: alerts.PassRateBelow, PassRate: "80", Days: "7", Sensitivity: alerts.Sequential, Channel: notify.Webhook,
		Worse: "10", Cost: "1", Fall: "50",
	}
	if s.Alerts.Sender.MailConfigured() {
		form.Channel = alerts.ToOwners
	}
	if skill := v.URL.Query().Get("skill"); skill != "" {
		p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, skill)
		if err != nil {
			return answer{}, err
		}
		form.Skill = p.Name
	}
	return s.alertPage(v, form)
}

// alertPage shows the form with its preview. If the form is incomplete, the preview
// says so.
func (s *Service) alertPage(v *visit, form alertForm) (answer, error) {
	view := alertNewView{Form: form, Channels: channelChoices, Mail: s.Alerts.Sender.MailConfigured()}
	var err error
	if view.Skills, err = s.skillChoices(v); err != nil {
		return answer{}, err
	}
	// The preview needs no script: it is part of the page that a form returns.
	view.Preview, err = s.preview(v, form, view.Skills)
	return show("alert_new", "New alert", view), err
}

// handlePreviewAlert renders the form that a script posts whenever a field changes. It
// changes nothing.
func (s *Service) handlePreviewAlert(v *visit) (answer, error) {
	return s.alertPage(v, decodeForm[alertForm](v.Request))
}

// privateAddress refuses an address to which the server would not send. The API stores it
// with a warning; a person can correct it at once.
func (s *Service) privateAddress(form alertForm) error {
	if form.Channel != notify.Email && !s.Alerts.AllowPrivate && outbound.LiteralWarning(form.Address) != "" {
		return fault.Invalid("address", "Enter a public address: this server doesn't send to private networks.")
	}
	return nil
}

// handleCreateAlert creates a rule. A refused form is shown again with its input. A
// webhook's secret is shown on a page of its own, once.
func (s *Service) handleCreateAlert(v *visit) (answer, error) {
	form := decodeForm[alertForm](v.Request)
	n, err := form.newRule()
	if private := s.privateAddress(form); private != nil {
		err = private
	}
	if err == nil && form.Skill != "" {
		var p skills.Performance
		p, err = s.chosenSkill(v, form.Skill)
		n.SkillID = &p.ID
	}
	var made alerts.Rule
	if err == nil {
		made, err = s.Alerts.Create(v.Context(), v.Caller, n)
	}
	if err != nil {
		page, failure := s.alertPage(v, form)
		if failure != nil {
			return answer{}, failure
		}
		return page.refused(form.inWords(err))
	}
	if made.Secret != nil {
		return showSecret(made, "The alert was created."), nil
	}
	return redirect(pathTo("alerts", made.ID), "The alert was created."), nil
}

// alertSecretView shows a signing secret, once.
type alertSecretView struct {
	ID, Message, Secret string
}

// showSecret responds with a page of its own: a redirect would have to carry the secret
// in a cookie or URL.
func showSecret(r alerts.Rule, message string) answer {
	return show("alert_secret", "Signing secret", alertSecretView{ID: r.ID, Message: message, Secret: *r.Secret})
}

// alertView is one rule with its history. Deliveries and events are paged together,
// by one number in the address.
type alertView struct {
	ruleRow
	MayChange  bool // whether the caller may change the rule; a test notification needs less
	Form       alertForm
	Channels   []channelChoice
	Deliveries []alerts.Delivery
	Sent       int // number of deliveries in all
	Events     []alerts.Event
	Happened   int // number of events in all
	PerPage    int
	States     map[string]alerts.State // states by skill id
	People     map[string]string       // names of users by id
	Values     preview                 // the figures that it watches, against its threshold
}

// Person returns the name of the user who acknowledged an alert. A user who was
// removed for good has no name any more.
func (v alertView) Person(id *string) string {
	return cmp.Or(v.People[*id], "a former member")
}

// MayAcknowledge reports whether the rule fires for a skill and is not acknowledged
// yet.
func (v alertView) MayAcknowledge() bool {
	for _, s := range v.States {
		if s.Fires() && s.AcknowledgedAt == nil {
			return true
		}
	}
	return false
}

// handleAlert shows one rule.
func (s *Service) handleAlert(v *visit) (answer, error) {
	view, err := s.loadAlert(v)
	return show("alert", "Alert", view), err
}

// loadAlert reads the rule of the path with everything on its page. A form that was
// refused loads it again, and puts its input over it.
func (s *Service) loadAlert(v *visit) (view alertView, err error) {
	ctx, org := v.Context(), v.Caller.OrgID
	r, err := s.Alerts.Rule(ctx, org, v.PathValue("id"))
	if err != nil {
		return view, err
	}
	rows, err := s.ruleRows(v, []alerts.Rule{r})
	if err != nil {
		return view, err
	}
	view = alertView{
		ruleRow: rows[0], MayChange: alerts.MayChange(v.Caller, r), Form: alertFormOf(r),
		Channels: channelChoices, PerPage: eventsShown,
	}
	view.Deliveries, view.Sent, err = s.Alerts.Deliveries(ctx, org, r.ID, eventsShown, v.offset(eventsShown))
	if err != nil {
		return view, err
	}
	states, err := s.Alerts.States(ctx, r)
	if err != nil {
		return view, err
	}
	view.States = map[string]alerts.State{}
	for _, state := range states[r.ID] {
		view.States[state.SkillID] = state
	}
	if view.People, err = s.userNames(v); err != nil {
		return view, err
	}
	form := view.Form
	form.Skill = view.Skill
	choices, err := s.skillChoices(v)
	if err != nil {
		return view, err
	}
	if view.Values, err = s.preview(v, form, choices); err != nil {
		return view, err
	}
	view.Events, view.Happened, err = s.Alerts.Events(ctx, org,
		alerts.EventFilter{RuleID: r.ID, Page: store.Page{Limit: eventsShown, Offset: v.offset(eventsShown)}})
	return view, err
}

// handleChangeAlert changes a rule. The type of a rule never changes: the form of the
// page does not have it.
func (s *Service) handleChangeAlert(v *visit) (answer, error) {
	r, err := s.Alerts.Rule(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	form := decodeForm[alertForm](v.Request)
	form.Type = r.Type
	change, err := form.change(r)
	if private := s.privateAddress(form); private != nil {
		err = private
	}
	var made *string
	if err == nil {
		r, made, err = s.Alerts.Update(v.Context(), v.Caller, r.ID, change)
	}
	if err != nil {
		view, failure := s.loadAlert(v)
		if failure != nil {
			return answer{}, failure
		}
		view.Form = form
		return show("alert", "Alert", view).refused(form.inWords(err))
	}
	// A change to a webhook makes a secret.
	if made != nil {
		return showSecret(r, "The alert was updated."), nil
	}
	return redirect(pathTo("alerts", r.ID), "The alert was updated."), nil
}

// handleEnableAlert turns a rule on or off. Turning it on again makes it due at
// once.
func (s *Service) handleEnableAlert(v *visit) (answer, error) {
	enabled := v.FormValue("enabled") == "true"
	r, _, err := s.Alerts.Update(v.Context(), v.Caller, v.PathValue("id"), alerts.Change{Enabled: &enabled})
	if err != nil {
		return answer{}, err
	}
	message := "The alert was turned off."
	if enabled {
		message = "The alert was turned on."
	}
	return redirect(pathTo("alerts", r.ID), message), nil
}

// handleAcknowledgeAlert acknowledges all firings of a rule. None is not an error: it
// may have resolved since the page was loaded.
func (s *Service) handleAcknowledgeAlert(v *visit) (answer, error) {
	r, firing, err := s.Alerts.Acknowledge(v.Context(), v.Caller, v.PathValue("id"))
	message := "The alert is acknowledged: no more reminders until it is resolved."
	if len(firing) == 0 {
		message = "The alert is not firing."
	}
	return redirect(pathTo("alerts", r.ID), message), err
}

// handleSnoozeAlert snoozes a rule for the hours of the form; 0 ends that.
func (s *Service) handleSnoozeAlert(v *visit) (answer, error) {
	// Fractions are allowed: half an hour is .5.
	hours, ok := formNumber(v.FormValue("hours"), 366*24)
	if !ok {
		return answer{}, fault.Invalid("hours", "Choose for how long")
	}
	var until *time.Time
	message := "The alert is no longer snoozed."
	if hours > 0 {
		at := time.Now().Add(time.Duration(hours * float64(time.Hour)))
		until, message = &at, "The alert is snoozed."
	}
	r, err := s.Alerts.Snooze(v.Context(), v.Caller, v.PathValue("id"), until)
	return redirect(pathTo("alerts", r.ID), message), err
}

// handleTestAlert sends a test notification and waits for the outcome. A failed test is
// shown on the page where the alert can be changed, with the response of the receiver.
func (s *Service) handleTestAlert(v *visit) (answer, error) {
	d, err := s.Alerts.Test(v.Context(), v.Caller, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	outcome := ""
	if d.ResponseStatus != nil {
		outcome = " The receiver responded with " + strconv.Itoa(*d.ResponseStatus) + "."
	}
	if d.Status == delivery.Delivered {
		return redirect(pathTo("alerts", d.SourceID), "The test notification was delivered."+outcome), nil
	}
	if d.Detail != nil {
		outcome += " " + *d.Detail
	}
	view, err := s.loadAlert(v)
	if err != nil {
		return answer{}, err
	}
	// A problem of the form, so that the page is shown with it.
	err = fault.New(fault.Conflict, "The test notification was not delivered.%s", outcome)
	return show("alert", "Alert", view).refused(err)
}

// handleRotateAlert replaces the signing secret. The old one stays valid for a while,
// so that the receiver can be changed in between.
func (s *Service) handleRotateAlert(v *visit) (answer, error) {
	r, err := s.Alerts.RotateSecret(v.Context(), v.Caller, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return showSecret(r, "The old secret stays valid until "+r.OldSecretUntil.UTC().Format("2006-01-02 15:04 UTC")+"."), nil
}

// handleDeleteAlert deletes a rule with its history.
func (s *Service) handleDeleteAlert(v *visit) (answer, error) {
	if err := s.Alerts.Delete(v.Context(), v.Caller, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/alerts", "The alert was deleted."), nil
}
