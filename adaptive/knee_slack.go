package adaptive

const (
	slackWindows  = 20    // whose use of workers is remembered
	slackPatience = 20.0  // seconds of slack before the limit follows demand
	slackMost     = 960.0 // to which that doubles with each time it was wrong
	abandonAfter  = 60.0  // seconds without load after which a trial, or a proof that waits for the next burst, is given up
)

// slack is the knowledge of the demand while the limit does not bind.
type slack struct {
	time          float64 // seconds for which the limit has not been needed
	patience      float64 // seconds for which that is tolerated
	abandoned     float64 // seconds for which a trial, or a proof that waits, has had no evidence
	proven        int     // the limit before it followed demand, 0 if it did not
	useless       int     // the limit known to be useless above that, 0 if none was
	uselessDemand float64 // as knee.uselessDemand, of that
	resumed       int     // searches in a row that went on after a trial without load
	peaks         []int   // most busy workers of the last windows
	busy          []float64
}

func (s *slack) note(w *Window) {
	s.peaks = append(s.peaks, w.BusyMax)
	s.busy = append(s.busy, w.Busy())
	if len(s.peaks) > slackWindows {
		s.peaks, s.busy = s.peaks[1:], s.busy[1:]
	}
}

// demand is the most workers that were needed, and whether they were needed nearly always:
// as with a fixed number of users, who would only wait elsewhere.
func (s *slack) demand() (peak int, steady bool) {
	mean := 0.0
	for i, p := range s.peaks {
		peak = max(peak, p)
		mean += s.busy[i] / float64(len(s.peaks))
	}
	return peak, mean >= inUse*float64(peak)
}

// restore goes back to the proven limit as soon as tasks wait again; false if there
// is none. During a trial of a smaller limit tasks wait because of the trial.
func (k *knee) restore() bool {
	s := &k.slack
	s.time = 0
	if k.trial.limit != 0 {
		return false
	}
	proven := s.proven
	s.proven = 0
	if proven <= k.base {
		return false
	}
	k.explain("tasks wait again: back to %d", proven)
	k.base, k.hi, k.uselessDemand = proven, s.useless, s.uselessDemand
	s.patience = min(2*s.patience, slackMost)
	k.proof.clear()
	k.enterHold()
	return true
}

// outgrown ends the trial of a smaller limit that was to fit a demand which is far larger
// by now.
func (k *knee) outgrown() bool {
	if limit := k.trial.limit; limit == 0 || limit >= k.base || !k.trial.baseUnbound || k.demand <= 1.25*float64(k.base) {
		return false
	}
	k.explain("back to %d: there is more to do", k.base)
	k.endTrial()
	k.resize(k.base)
	k.mode = climbing
	k.open()
	return true
}

// learnSlack takes a window in which the limit was not binding. It is no evidence
// about the limit, except that the extra workers of a trial are really in use.
func (k *knee) learnSlack(w *Window, s sample, d float64) {
	sl := &k.slack
	busy := w.Busy()
	switch {
	case k.trial.limit > k.base && busy >= extraUse*float64(k.base):
		s.completed, s.seconds = float64(w.Completed), d
		k.trial.add(s, busy, d)
		k.bound = false // what is found holds for this demand
		k.evaluate(4 * shortestTrial)
	case k.trial.limit != 0:
		if sl.abandoned += d; sl.abandoned > abandonAfter {
			sl.abandoned = 0
			k.abandon()
		}
	case busy < 4:
		sl.time = 0
	default:
		if sl.time += d; sl.time >= sl.patience {
			sl.time = 0
			k.trim()
		}
	}
}

// abandon ends a trial without enough evidence. If there is load that does not need the
// larger limit, that limit is useless until there is more load: else it would be tried again
// in the next window in which the base binds, for ever.
func (k *knee) abandon() {
	limit := k.trial.limit
	peak, _ := k.slack.demand()
	k.endTrial()
	if limit < k.base || peak < k.base {
		k.explain("no load to judge %d by", limit)
		if k.mode <= shrinking && k.slack.resumed < 3 {
			k.slack.resumed++
			k.resize(k.base) // the search continues when there is load
			return
		}
		k.enterHold()
		return
	}
	k.explain("%d is not needed: %d are nearly enough", limit, k.base)
	k.hi, k.uselessDemand = limit, max(k.demand, float64(k.base))
	if k.mode != climbing {
		k.probeFailed()
		return
	}
	k.mode = shrinking
	k.advance()
}

// trim follows a steady demand down. The first window in which the limit binds
// takes it back.
func (k *knee) trim() {
	peak, steady := k.slack.demand()
	if !steady || float64(peak) >= 0.8*float64(k.base) || peak < k.Min {
		return
	}
	k.explain("no more than %d of %d are in use", peak, k.base)
	k.slack.proven, k.slack.useless, k.slack.uselessDemand = k.base, k.hi, k.uselessDemand
	k.base = peak
	k.proof.clear()
	k.hi, k.lo = 0, 0
	k.enterHold()
	k.mode = shrinking
}
