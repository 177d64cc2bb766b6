// Package grades grades sessions of skills: by people, by a judge that holds
// sessions against expectations, and by what happened in them. Pass rates are kept
// by skills, where a grade counts by its basis; what a grade rests on is kept here.
// The package owns the tables grades, grade_failures, graders, grader_days and
// grade_queue.
package grades
