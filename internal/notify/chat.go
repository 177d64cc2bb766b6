package notify

import (
	"net/url"
	"strings"
)

// A chat gets its notice in a rich form, and in a plain one when it does not
// take that. Limits are in characters.
const (
	chatATextLimit    = 4000
	chatAHeaderLimit  = 150
	chatASectionLimit = 3000

	chatBContentLimit     = 2000
	chatBDescriptionLimit = 4096

	linkLabel = "Open in Whetstone"
)

type chatABody struct {
	Text   string       `json:"text"` // also what a notification shows
	Blocks []chatABlock `json:"blocks,omitempty"`
}

type chatABlock struct {
	Type string     `json:"type"`
	Text chatAWords `json:"text"`
}

type chatAWords struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// chatAEscape also keeps a name from calling everybody: <!channel>.
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
		lines = append(lines, l.marked("*"))
	}
	if m.url != "" {
		lines = append(lines, "<"+chatALink.Replace(m.url)+"|"+linkLabel+">")
	}
	details := strings.Join(lines, "\n")
	plain = chatABody{Text: cut(m.title+"\n"+details, chatATextLimit)}
	rich = chatABody{Text: plain.Text, Blocks: []chatABlock{
		{"header", chatAWords{"plain_text", cut(m.title, chatAHeaderLimit)}},
		{"section", chatAWords{"mrkdwn", cut(details, chatASectionLimit)}},
	}}
	return rich, plain
}

// chatALink keeps a URL from ending its own link.
var chatALink = strings.NewReplacer("&", "&amp;", "<", "%3C", ">", "%3E", "|", "%7C")

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

// chatBMentions lists what a message may call; it is always empty, and must
// not be null.
type chatBMentions struct {
	Parse []string `json:"parse"`
}

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
		lines = append(lines, l.marked("**"))
	}
	details := strings.Join(lines, "\n")
	nobody := chatBMentions{Parse: []string{}}
	embed := chatBEmbed{Description: cut(details, chatBDescriptionLimit), Color: n.color(), Timestamp: wireTime(n.TriggeredAt)}
	if m.url != "" {
		embed.Title, embed.URL = linkLabel, m.url
	}
	rich = chatBBody{Content: cut(m.title, chatBContentLimit), Embeds: []chatBEmbed{embed}, AllowedMentions: nobody}
	plain = chatBBody{Content: cut(m.title+"\n"+details+"\n"+m.url, chatBContentLimit), AllowedMentions: nobody}
	return rich, plain
}

// color is the one beside a message: red, green or grey.
func (n *Notice) color() int {
	switch n.Status {
	case Resolved:
		return 0x2EB67D
	case Test:
		return 0x868E96
	default:
		return 0xD92D20
	}
}

// marked sets the label off between two marks.
func (l line) marked(mark string) string {
	if l.label == "" {
		return l.text
	}
	return mark + l.label + ":" + mark + " " + l.text
}

// awaited asks chat_b to answer when the message is saved: otherwise one that
// is lost looks like one that is not.
func awaited(u *url.URL) *url.URL {
	query := u.Query()
	query.Set("wait", "true")
	with := *u
	with.RawQuery = query.Encode()
	return &with
}
