package judge

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxOthers is how many criteria of other cases controls take words from.
const maxOthers = 50

// controls makes control criteria: ones that a material certainly does not
// fulfil. A control is a real criterion in which most words are replaced by
// words that do not occur in the material. It has the form and the length of
// the real one, so that a prompt injection cannot tell them apart. A model that
// passes a control did not read the material, or obeyed it.
type controls struct {
	bases   []string        // criteria to make controls of
	foreign []string        // words that are not in the material
	known   map[string]bool // stems of words in the material, the task, the criteria, and in foreign
}

func newControls(r GradeRequest) *controls {
	c := &controls{known: map[string]bool{}}
	others := r.Others[:min(len(r.Others), maxOthers)]
	for _, text := range append([]string{r.Material, r.Task}, r.Criteria...) {
		for _, word := range Stems(text) {
			c.known[word] = true
		}
	}
	// The first of these that has a suitable criterion: those of the case look most alike.
	for _, bases := range [][]string{r.Criteria, others, plainCriteria} {
		if c.bases = slices.DeleteFunc(slices.Clone(bases), isUnsuitable); len(c.bases) > 0 {
			break
		}
	}
	for _, text := range others {
		c.add(Words(text))
	}
	c.add(foreignWords)
	if len(c.foreign) < minForeign { // the material has nearly all of them
		c.foreign = append(c.foreign, foreignWords...)
	}
	return c
}

// minForeign is the least number of words to choose from.
const minForeign = 20

// add adds the content words that are not known to foreign.
func (c *controls) add(all []string) {
	for _, word := range all {
		if isContent(word) && !c.known[Stem(word)] {
			c.known[Stem(word)] = true
			c.foreign = append(c.foreign, word)
		}
	}
}

// draw returns n random controls, all different unless there are too few words. If there are, it
// gives up on that after ten tries each.
func (c *controls) draw(n int) []string {
	var all []string
	for try := 0; len(all) < n; try++ {
		if one := c.drawOne(); try > 10*n || !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// wordInText matches a word of a criterion.
var wordInText = regexp.MustCompile(`\p{L}[\p{L}\p{N}]*`)

// drawOne makes a control. Two thirds of the content words are replaced, or all
// of them where there are one or two: models that only skim pass a control that
// keeps more.
func (c *controls) drawOne() string {
	text := strings.TrimSpace(c.bases[rand.IntN(len(c.bases))])
	places := wordInText.FindAllStringIndex(text, -1)
	places = slices.DeleteFunc(places, func(p []int) bool { return !isContent(text[p[0]:p[1]]) })
	rand.Shuffle(len(places), func(i, k int) { places[i], places[k] = places[k], places[i] })
	places = places[:(2*len(places)+2)/3]
	slices.SortFunc(places, func(a, b []int) int { return a[0] - b[0] })
	var b strings.Builder
	end := 0
	for _, p := range places {
		foreign := c.foreign[rand.IntN(len(c.foreign))]
		b.WriteString(text[end:p[0]] + matchForm(text[p[0]:p[1]], foreign))
		end = p[1]
	}
	return b.String() + text[end:]
}

// matchForm gives a word the capitals and the plural of another, e.g.
// matchForm("Tables", "anchor") is "Anchors".
func matchForm(model, word string) string {
	if strings.HasSuffix(strings.ToLower(model), "s") && !strings.HasSuffix(word, "s") {
		word = plural(word)
	}
	first, size := utf8.DecodeRuneInString(model)
	switch {
	case !unicode.IsUpper(first):
		return word
	case strings.ToUpper(model) == model && len(model) > size:
		return strings.ToUpper(word)
	}
	first, size = utf8.DecodeRuneInString(word)
	return string(unicode.ToUpper(first)) + word[size:]
}

func plural(word string) string {
	switch {
	case strings.HasSuffix(word, "y") && !strings.ContainsAny(word[max(0, len(word)-2):], "aeou"):
		return word[:len(word)-1] + "ies"
	case strings.HasSuffix(word, "ch"), strings.HasSuffix(word, "sh"), strings.HasSuffix(word, "x"):
		return word + "es"
	}
	return word + "s"
}

// isContent reports whether a word is a content word: one that names what a
// criterion is about.
func isContent(word string) bool {
	word = strings.ToLower(word)
	return utf8.RuneCountInString(word) > 2 && !strings.ContainsFunc(word, unicode.IsNumber) &&
		!stopWords[word] && !gradingWords[word]
}

// maxBase is the longest criterion that controls are made of, in bytes: a second
// question contains one for each quotation.
const maxBase = 2000

// isUnsuitable reports whether no control can be made of a criterion: it asks
// for something to be absent, has no words to replace, or is too long.
func isUnsuitable(criterion string) bool {
	if len(criterion) > maxBase {
		return true
	}
	found := wordInText.FindAllString(strings.ToLower(criterion), -1)
	negated := slices.ContainsFunc(found, func(word string) bool { return limitingWords[word] })
	return negated || !slices.ContainsFunc(found, isContent)
}

// limitingWords occur in criteria that ask for something to be absent. It is
// read only.
var limitingWords = wordSet(`
no not never none neither nor without avoid avoids avoided avoiding absent free lack lacks lacking omit
omits omitted omitting exclude excludes excluded excluding except refrain refrains only fewer less most
maximum instead rather don doesn isn aren won mustn shouldn cannot dont doesnt isnt nicht kein keine
keinen ohne nie sans pas jamais sin nunca ningún senza non mai
`)

// gradingWords say how an output fulfils a criterion, not what it is about. It
// is read only.
var gradingWords = wordSet(`
answer answers answered asks call calls called check checks cites cite clear clearly contain contains
containing correct correctly describe describes end ends example examples explain explains first
following format gives given identifies identify include includes including last least line lines list
lists material mention mentions name names named note notes output outputs point points present provide
provides recommend recommends refer refers report reports response responses result results return
returns say says sentence show shows shown start starts state states step steps suggest suggests summary
tell tells text two three warn warns write writes written
`)

// plainCriteria are used where a case has no suitable criterion.
var plainCriteria = []string{
	"It names the owner of the warehouse.",
	"The output explains how the invoice is archived.",
	"It mentions the deadline of the audit.",
	"The answer gives the address of the supplier.",
}

// foreignWords are common words of many fields. It is read only.
var foreignWords = strings.Fields(`
airline alphabet anchor apartment appointment architect artist auction audience audit author bakery
balcony battery bicycle border bottle branch breakfast bridge broker budget calendar camera candidate
canvas capital captain carpet castle ceiling census chapter charity chemist citizen climate clinic coast
collar colony committee compass concert contract copper cotton council coupon courier cousin curtain
customs deadline degree delivery dentist deposit desert diagram dialect diet dinner diploma discount
doctor donation drawer editor election elevator embassy engine envelope estate exhibition fabric factory
farmer festival fiction flight forest fountain freight furniture gallery garage garden gender glacier
grammar granite guitar harbour harvest helmet highway holiday honey hotel hospital humidity import
insurance invoice island jacket journal journey jury kitchen ladder landlord laundry lawyer lecture
leather lemon lens licence lottery luggage magazine manual marble market medal melody merchant mileage
mirror monument mortgage mountain museum mushroom nephew novel nurse ocean opera orchard orchestra
painter parcel parliament passenger passport patent payroll pension percussion perfume pharmacy
photograph pigment planet plaster poem poet pollen portrait postage prairie prize profession province
publisher pupil queue railway ransom rebate receipt recipe refund rehearsal rental reptile restaurant
revenue rhythm ribbon salary sandwich satellite scholar sculpture season senate shareholder shelf
shipment silver skeleton sleeve soldier spectrum spice stadium staircase statue steam storm studio
subsidy suburb suitcase surgeon surname tailor tariff telescope tenant terminal textile theatre
thermometer ticket timber tourist tractor treasury treaty tribunal trousers tunnel turbine tutor umbrella
uncle uniform vaccine valley vehicle velvet vineyard violin visitor voucher voyage waiter wallet
warehouse warranty wedding wheel whistle widow winter wizard wool workshop yacht
`)
