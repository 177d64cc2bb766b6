package judge

import (
	"math/rand/v2"
	"slices"
)

// The number of skills that a tested one competes with.
const (
	minDistractors = 5
	maxDistractors = 15
)

// Distractors chooses the skills that a tested one competes with: up to 15 of
// the others, and neutral ones where there are fewer than 5. The same seed gives
// the same choice whatever the order of the list. Skills without a description
// are left out.
func Distractors(others []Skill, tested string, seed int64) []Skill {
	var chosen []Skill
	seen := map[string]bool{"": true, tested: true}
	add := func(s Skill) {
		if s.Description != "" && !seen[s.Name] {
			seen[s.Name] = true
			chosen = append(chosen, s)
		}
	}
	// Sorting and a seeded shuffle make the choice a function of the set: all trials of a run must
	// compete with the same skills.
	for _, s := range slices.SortedFunc(slices.Values(others), byName) {
		add(s)
	}
	order := rand.New(rand.NewPCG(uint64(seed), 0))
	order.Shuffle(len(chosen), func(i, k int) { chosen[i], chosen[k] = chosen[k], chosen[i] })
	chosen = chosen[:min(len(chosen), maxDistractors)]
	for _, s := range neutralSkills {
		if len(chosen) >= minDistractors {
			break
		}
		add(s)
	}
	return chosen
}

// neutralSkills are unlike the skills of organisations, and unlike each other.
// It is read only.
var neutralSkills = []Skill{
	{"recipe-scaling", "Scales cooking recipes to another number of servings and converts kitchen measures. Use when someone cooks for more or fewer people than a recipe is for."},
	{"trip-planning", "Plans journeys by train, plane and car with stops, times and hotels. Use when someone wants an itinerary for a holiday or a business trip."},
	{"plant-care", "Tells how to water, repot and light house and garden plants and how to treat their pests. Use when someone asks about an ailing plant."},
	{"music-practice", "Makes practice plans for instruments with scales, pieces and metronome marks. Use when someone learns an instrument or prepares a concert."},
	{"board-game-rules", "Explains the rules of board and card games and settles disputes at the table. Use when players ask whether a move is allowed."},
	{"workout-plan", "Makes weekly training plans for running, swimming and strength with warm-up and rest days. Use when someone trains for a race or wants to get fit."},
	{"vocabulary-cards", "Makes flash cards with words, genders and example sentences of a foreign language. Use when someone learns vocabulary."},
}
