import Testing

@testable import Delivery

/// An activity changes its phase only as listed. Its timer and its current command change with the phase. (R7)
struct ActivityPhaseTests {
    private static let start = Moment(monotonicMilliseconds: 1_000_000, wallMilliseconds: 1_790_000_000_000)
    private static let phases = (UInt8.min...UInt8.max).compactMap(ActivityPhase.init(rawValue:))

    private static func makeActivities() -> Activities { Activities(limit: 64, seed: 1, now: start) }

    private static func addSample(to activities: inout Activities) -> ActivityIndex {
        withUnsafeBytes(of: UInt64(1)) { activities.findOrAdd(0, $0) }
    }

    @Test func `Each phase can be reached from idle, and leads back to idle`() {
        for phase in Self.phases {
            #expect(Self.reachablePhases(from: .idle).contains(phase), "\(phase)")
            #expect(Self.reachablePhases(from: phase).contains(.idle), "\(phase)")
        }
    }

    private static func reachablePhases(from first: ActivityPhase) -> Set<ActivityPhase> {
        var reachedPhases: Set = [first]
        var phasesToFollow = [first]
        while let phase = phasesToFollow.popLast() {
            for next in phases where phase.canChange(to: next) && reachedPhases.insert(next).inserted {
                phasesToFollow.append(next)
            }
        }
        return reachedPhases
    }

    @Test func `A push goes in flight only from the phase ready`() {
        for phase in Self.phases where phase.canChange(to: .inFlight) { #expect(phase == .ready) }
        for phase in Self.phases where phase.canChange(to: .ready) {
            #expect([.admitting, .inFlight, .backingOff].contains(phase))
        }
    }

    @Test func `Leaving a phase that has a timer clears the timer`() {
        var activities = Self.makeActivities()
        let activity = Self.addSample(to: &activities)
        activities.enter(activity, .paused, untilMilliseconds: Self.start.monotonicMilliseconds + 5_000)
        #expect(activities.nextTimerDueMilliseconds != nil)
        activities.enter(activity, .queuedToBegin)
        #expect(activities.nextTimerDueMilliseconds == nil)
        #expect(activities.popActivityQueuedToBegin() == activity)
        #expect(activities.popActivityQueuedToBegin() == nil)
    }

    @Test func `A timer that fires does not change the phase`() {
        var activities = Self.makeActivities()
        let activity = Self.addSample(to: &activities)
        activities.enter(activity, .paused, untilMilliseconds: Self.start.monotonicMilliseconds + 5_000)
        var later = Self.start
        later.monotonicMilliseconds += 5_100
        activities.fireTimers(now: later)
        #expect(activities.popDueActivity() == activity)
        #expect(activities[activity].phase == .paused)
        activities.enter(activity, .idle)
        activities.free(activity)
        #expect(activities.count == 0)
    }

    @Test func `An activity keeps its current command until it is idle`() {
        var activities = Self.makeActivities()
        let activity = Self.addSample(to: &activities)
        activities.beginCommand(7, of: activity, in: .admitting)
        activities.enter(activity, .ready)
        activities.enter(activity, .awaitingService, untilMilliseconds: Self.start.monotonicMilliseconds + 1)
        #expect(activities[activity].currentCommand == 7)
        activities.enter(activity, .idle)
        #expect(activities[activity].currentCommand == .null)
    }

    @Test func `A change of phase that is not listed traps`() async {
        await #expect(processExitsWith: .failure) {
            var activities = Self.makeActivities()
            let activity = Self.addSample(to: &activities)
            activities.enter(activity, .inFlight)
        }
    }

    @Test func `Entering a phase that needs a timer without one traps`() async {
        await #expect(processExitsWith: .failure) {
            var activities = Self.makeActivities()
            let activity = Self.addSample(to: &activities)
            activities.enter(activity, .paused)
        }
    }

    @Test func `Removing an activity that is in progress traps`() async {
        await #expect(processExitsWith: .failure) {
            var activities = Self.makeActivities()
            let activity = Self.addSample(to: &activities)
            activities.beginCommand(7, of: activity, in: .admitting)
            activities.free(activity)
        }
    }
}
