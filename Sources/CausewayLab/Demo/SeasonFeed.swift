import CausewayCommandLine
import Kafka

/// Writes the commands of the season (all matches, ball by ball) to the commands topic when they are due. A follower of
/// a match is a phone that shows the match.
struct SeasonFeed {
    /// The address in the commands of a match.
    enum Addressees {
        /// Each command names one follower's activity, so each state needs a command for each follower.
        case activities
        /// Each command names the audience of all followers of the match, so each state needs one command.
        case audiences
    }

    /// The position of the next command: the index of its event in the timeline, and the number of the follower who
    /// gets it.
    private struct Cursor {
        var eventIndex = 0
        var followerNumber = 1
    }

    let matches: [Match]
    let followerCount: Int
    let addressees: Addressees
    /// How many followers of each match have an app that starts their activity itself. For each other follower, a push
    /// starts the activity.
    let appStartedFollowerCount: Int
    /// Whether audiences have broadcast channels. If so, an activity that a push started gets its updates from a
    /// channel.
    let hasChannels: Bool
    private let timeline: Timeline
    private var matchCommands: [MatchCommands]
    private let steps: [[MatchStep]]
    /// Notes every command for a checking program; nil: there is no journal.
    private let journal: CommandJournal?
    private var cursor = Cursor()
    /// The number of commands that were given to the producer.
    private(set) var commandCount = 0
    private(set) var finishedMatchCount = 0
    /// The title and the body of the newest alert of any match.
    private(set) var latestEventText = ""

    init(
        matches: [Match],
        followerCount: Int,
        durationMilliseconds: Int64,
        startsByPush: Bool = true,
        addressees: Addressees = .activities,
        hasChannels: Bool = false,
        journal: CommandJournal? = nil
    ) {
        precondition((1...CommandTemplate.followersMax).contains(followerCount), "followers have four digits")
        precondition(journal == nil || addressees == .activities, "the journal names activities")
        precondition(!hasChannels || addressees == .audiences, "a channel is an audience's")
        self.matches = matches
        self.followerCount = followerCount
        self.addressees = addressees
        self.hasChannels = hasChannels
        appStartedFollowerCount = startsByPush ? followerCount - followerCount / 2 : followerCount
        timeline = Timeline(matches, durationMilliseconds: durationMilliseconds)
        steps = matches.map { $0.steps() }
        matchCommands = zip(matches, steps)
            .map { match, steps in
                switch addressees {
                case .activities: MatchCommands(match, steps: steps, hasIdentifiers: journal != nil)
                case .audiences: MatchCommands(toAudienceOf: match, steps: steps)
                }
            }
        self.journal = journal
    }

    var phoneCount: Int { matches.count * followerCount }

    /// The number of phones that register no update token, because their activities are on channels.
    var subscribedPhoneCount: Int { hasChannels ? matches.count * (followerCount - appStartedFollowerCount) : 0 }

    var isFinished: Bool { cursor.eventIndex == timeline.events.count }

    /// The number of all commands of the season, including starts.
    var totalCommandCount: Int { timeline.events.count * commandsPerEvent + matches.count * startNumbers.count }

    private var commandsPerEvent: Int { addressees == .audiences ? 1 : followerCount }

    /// The numbers (from 1) of a match's followers to whom starts are sent, one start for each number. If commands go
    /// to audiences, there is only one number, because one start reaches all followers.
    private var startNumbers: Range<Int> {
        guard appStartedFollowerCount < followerCount else { return 1..<1 }
        return addressees == .audiences ? 1..<2 : appStartedFollowerCount + 1..<followerCount + 1
    }

    func activityIdentifier(match: Int, follower: Int) -> String {
        switch addressees {
        case .activities: MatchCommands.activityPrefix(of: matches[match]) + Self.paddedNumber(follower)
        case .audiences: MatchCommands.activityIdentifier(onDevice: deviceIdentifier(match: match, follower: follower))
        }
    }

    /// Returns the audience that a registration must name; nil: none. The registration of an activity names the
    /// audience of its match. The registration of a device does so too, but only if a push starts the device's
    /// activity.
    ///
    /// - Parameter key: the key of the registration: the id of an activity, or the id of a device, a slash and an
    ///   attributes type.
    func audience(ofRegistration key: String) -> String? {
        guard addressees == .audiences else { return nil }
        // An activity's id begins with the id of its device: phone-MATCH-FOLLOWER.
        let parts = key.prefix { $0 != "/" }.split(separator: "-")
        guard parts.count >= 3, let follower = Int(parts[2]) else { return nil }
        let isDevice = key.contains("/")
        return isDevice && follower <= appStartedFollowerCount ? nil : MatchCommands.audience(ofMatch: String(parts[1]))
    }

    func deviceIdentifier(match: Int, follower: Int) -> String {
        MatchCommands.devicePrefix(of: matches[match]) + Self.paddedNumber(follower)
    }

    func finalState(match: Int) -> MatchState { matchCommands[match].finalState }

    /// Sends starts to the followers whose apps do not start an activity themselves.
    ///
    /// - Throws: an error if a record is refused, or if the producer's queue is full. The queue is empty before the
    ///   season, so it should not be full.
    mutating func sendStarts(to topic: ProducerTopic, of producer: Producer) throws(LabError) {
        for match in matches.indices {
            matchCommands[match].start.setTimestamp(seconds: Clock.wallMilliseconds / 1_000)
            let lineTemplate = CommandJournal.LineTemplate(matches[match].openingStep, event: "start", sequence: 0)
            for number in startNumbers {
                matchCommands[match].start.setFollowerNumber(number)
                guard try Self.produce(matchCommands[match].start, to: topic, of: producer) else {
                    throw LabError(
                        """
                        the producer's queue is too small for \(followerCount) starts in each of \(matches.count) \
                        matches
                        """
                    )
                }
                commandCount += 1
                try journal?.append(lineTemplate, activity: activityIdentifier(match: match, follower: number))
            }
        }
    }

    /// Sends the commands that are due.
    ///
    /// - Parameter limit: the maximum number of commands of one call, so that other work does not wait long.
    /// - Returns: false if the producer's queue is full.
    mutating func writeDueCommands(
        elapsedMilliseconds: Int64,
        limit: Int,
        topic: ProducerTopic,
        producer: Producer
    ) throws(LabError) -> Bool {
        var remaining = limit
        let seconds = Clock.wallMilliseconds / 1_000
        while cursor.eventIndex < timeline.events.count, remaining > 0 {
            let event = timeline.events[cursor.eventIndex]
            guard event.dueMilliseconds <= elapsedMilliseconds else { return true }
            if cursor.followerNumber == 1 {
                matchCommands[event.matchIndex].steps[event.stepIndex].setTimestamp(seconds: seconds)
            }
            let lineTemplate = journal == nil ? nil : makeLineTemplate(of: event)
            while cursor.followerNumber <= commandsPerEvent, remaining > 0 {
                matchCommands[event.matchIndex].steps[event.stepIndex].setFollowerNumber(cursor.followerNumber)
                guard
                    try Self.produce(matchCommands[event.matchIndex].steps[event.stepIndex], to: topic, of: producer)
                else {
                    return false
                }
                if let lineTemplate {
                    try journal?
                        .append(
                            lineTemplate,
                            activity: activityIdentifier(match: event.matchIndex, follower: cursor.followerNumber)
                        )
                }
                cursor.followerNumber += 1
                commandCount += 1
                remaining -= 1
            }
            if cursor.followerNumber > commandsPerEvent { finishEvent(event) }
        }
        return true
    }

    private func makeLineTemplate(of event: Timeline.Event) -> CommandJournal.LineTemplate {
        let isLast = event.stepIndex + 1 == steps[event.matchIndex].count
        return CommandJournal.LineTemplate(
            steps[event.matchIndex][event.stepIndex],
            event: isLast ? "end" : "update",
            sequence: event.stepIndex + 1
        )
    }

    /// Writes the buffered lines of the journal to its file.
    func flushJournal() throws(LabError) { try journal?.flush() }

    private mutating func finishEvent(_ event: Timeline.Event) {
        if let alert = steps[event.matchIndex][event.stepIndex].alert {
            latestEventText = "\(alert.title) — \(alert.body)"
        }
        if event.stepIndex + 1 == steps[event.matchIndex].count { finishedMatchCount += 1 }
        cursor = Cursor(eventIndex: cursor.eventIndex + 1)
    }

    /// Produces one command. Returns false if the producer's queue is full.
    private static func produce(
        _ template: CommandTemplate,
        to topic: ProducerTopic,
        of producer: Producer
    ) throws(LabError) -> Bool {
        let queueingResult = template.withRecord { key, value in
            producer.produce(topic: topic, key: key, value: value, tag: 0)
        }
        switch queueingResult {
        case .queued: return true
        case .queueFull: return false
        case .failed(let error): throw LabError("a command could not be produced: \(error)")
        }
    }

    private static func paddedNumber(_ follower: Int) -> String {
        let digits = String(follower)
        return String(repeating: "0", count: max(0, CommandTemplate.followerDigitCount - digits.count)) + digits
    }
}
