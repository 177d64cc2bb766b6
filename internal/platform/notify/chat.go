package notify

import (
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A chat gets a notice with rich formatting, and as plain text if it answers
// that with 400. These are the limits of Slack (chat_a) and Discord (chat_b), in
// characters.
const (
	chatATextLimit    = 4000
	chatAHeaderLimit  = 150
	chatASectionLimit = 3000

	chatBContentLimit     = 2000
	chatBDescriptionLimit = 4096

	linkLabel = "Open in Whetstone"
)

// chatABody is a message to a Slack webhook.
type chatABody struct {
	Text   string       `json:"text"` // also shown in notifications
	Blocks []chatABlock `json:"blocks,omitempty"`
}

type chatABlock struct {
	Type string    `json:"type"`
	Text chatAText `json:"text"`
}

type chatAText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// chatAEscape escapes Slack's control characters. It also keeps a skill's name
// from notifying a whole channel: <!channel>.
func chatAEscape(r rune) string {
	switch r {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	default:
		return string(r)
	}
}

func chatABodies(n Notice) (rich, plain chatABody) {
	m := compose(n, chatAEscape)
	var lines []string
	for _, l := range m.lines {
		lines = append(lines, l.format("*"))
	}
	if m.url != "" {
		lines = append(lines, "<"+chatAURLEscaper.Replace(m.url)+"|"+linkLabel+">")
	}
	details := strings.Join(lines, "\n")
	plain = chatABody{Text: text.Ellipsis(m.title+"\n"+details, chatATextLimit)}
	rich = chatABody{Text: plain.Text, Blocks: []chatABlock{
		{"header", chatAText{"plain_text", text.Ellipsis(m.title, chatAHeaderLimit)}},
		{"section", chatAText{"mrkdwn", text.Ellipsis(details, chatASectionLimit)}},
	}}
	return rich, plain
}

// chatAURLEscaper escapes what would end the link that a URL is in: <url|label>.
var chatAURLEscaper = strings.NewReplacer("&", "&amp;", "<", "%3C", ">", "%3E", "|", "%7C")

// chatBBody is a message to a Discord webhook.
type chatBBody struct {
	Content         string        `json:"content"`
	Embeds          []chatBEmbed  `json:"embeds,omitempty"`
	AllowedMentions chatBMentions `json:"allowed_mentions"`
}

type chatBEmbed struct {
	Title       string `json:"title,omitempty"`
	URL         string `json:"url,omitempty"`
	Description string `json:"description"`
	Color       int    `json:"color"`
	Timestamp   string `json:"timestamp"`
}

// chatBMentions lists the kinds of mentions that may notify users. It is always
// empty: a skill named "@everyone" must notify no one. JSON must have [], since
// null means the default, which is all kinds.
type chatBMentions struct {
	Parse []string `json:"parse"`
}

// chatBEscape escapes Discord's Markdown.
func chatBEscape(r rune) string {
	if strings.ContainsRune("\\*_~`|<>[]()#", r) {
		return "\\" + string(r)
	}
	return string(r)
}

func chatBBodies(n Notice) (rich, plain chatBBody) {
	m := compose(n, chatBEscape)
	var lines []string
	for _, l := range m.lines {
		lines = append(lines, l.format("**"))
	}
	details := strings.Join(lines, "\n")
	color := 0xD92D20 // red
	switch n.Status {
	case Resolved:
		color = 0x2EB67D // green
	case Test:
		color = 0x868E96 // grey
	case Firing, Reminder:
	}
	embed := chatBEmbed{
		Description: text.Ellipsis(details, chatBDescriptionLimit),
		Color:       color,
		Timestamp:   wireTime(n.TriggeredAt),
	}
	if m.url != "" {
		embed.Title, embed.URL = linkLabel, m.url
	}
	noMentions := chatBMentions{Parse: []string{}}
	rich = chatBBody{
		Content:         text.Ellipsis(m.title, chatBContentLimit),
		Embeds:          []chatBEmbed{embed},
		AllowedMentions: noMentions,
	}
	plain = chatBBody{
		Content:         text.Ellipsis(m.title+"\n"+details+"\n"+m.url, chatBContentLimit),
		AllowedMentions: noMentions,
	}
	return rich, plain
}

// format puts the label between two marks, e.g. "*Window:* 2026-01-01 …".
func (l line) format(mark string) string {
	if l.label == "" {
		return l.text
	}
	return mark + l.label + ":" + mark + " " + l.text
}

// withWait adds wait=true, with which Discord responds once the message is
// saved. Without it, Discord answers 204 also when it then loses the message.
func withWait(u *url.URL) *url.URL {
	query := u.Query()
	query.Set("wait", "true")
	with := *u
	with.RawQuery = query.Encode()
	return &with
}
