package adaptive

const (
	slackWindows  = 20    // whose use of workers is remembered
	slackPatience = 20.0  // seconds of slack before the limit follows demand
	slackMost     = 960.0 // to which that doubles with each time it was wrong
	abandonAfter  = 60.0  // seconds without load that end a trial
)

// slack is what is known of demand while the limit does not bind.
type slack struct {
	time      float64 // for so long the limit has not been needed
	patience  float64 // for so long it need not be
	abandoned float64 // for so long a trial has learnt nothing
	proven    int     // the limit before it followed demand, 0 if it did not
	useless   int     // what was known to be useless above that, 0 if nothing was
	peaks     []int   // most busy workers of the last windows
	busy      []float64
}

func (s *slack) note(w *Window) {
	s.peaks = append(s.peaks, w.BusyMax)
	s.busy = append(s.busy, w.Busy())
	if len(s.peaks) > slackWindows {
		s.peaks, s.busy = s.peaks[1:], s.busy[1:]
	}
}

// demand is the most workers that were needed, and whether they were nearly always:
// as with a fixed number of users, who would only wait elsewhere.
func (s *slack) demand() (peak int, steady bool) {
	mean := 0.0
	for i, p := range s.peaks {
		peak = max(peak, p)
		mean += s.busy[i] / float64(len(s.peaks))
	}
	return peak, mean >= inUse*float64(peak)
}

// restore goes back to what was proven as soon as tasks wait again; false if there
// is nothing to go back to. During a trial of a smaller limit tasks wait because of
// that.
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
	k.say("tasks wait again: back to %d, which is proven", proven)
	k.base, k.hi = proven, s.useless
	s.patience = min(2*s.patience, slackMost)
	k.proof.clear()
	k.enterHold()
	return true
}

// learnSlack takes a window in which the limit was not binding. It says nothing
// about the limit, but that the extra workers of a trial are really in use.
func (k *knee) learnSlack(w *Window, s sample, d float64) {
	sl := &k.slack
	busy := w.Busy()
	switch {
	case k.trial.limit > k.base && busy >= 1.1*float64(k.base):
		s.completed, s.seconds = float64(w.Completed), d
		k.trial.add(s, busy, d)
		k.judge(4 * shortest)
	case k.trial.limit != 0:
		if sl.abandoned += d; sl.abandoned > abandonAfter {
			sl.abandoned = 0
			k.say("no load to judge %d by", k.trial.limit)
			k.endTrial()
			k.enterHold()
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

// trim follows a steady demand down. The first window in which the limit binds
// takes it back.
func (k *knee) trim() {
	peak, steady := k.slack.demand()
	if !steady || float64(peak) >= 0.8*float64(k.base) || peak < k.Min {
		return
	}
	k.say("no more than %d of %d are in use", peak, k.base)
	k.slack.proven, k.slack.useless = k.base, k.hi
	k.base = peak
	k.proof.clear()
	k.hi, k.lo = 0, 0
	k.enterHold()
	k.mode = shrinking
}
