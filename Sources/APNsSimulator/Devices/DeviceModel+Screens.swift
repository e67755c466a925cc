/// The Lock Screens of thousands of phones, for a web page that shows them.
///
/// A push must stay cheap, so it only marks its phone as changed (`markChanged`) and counts faults of its sender. The
/// screens are determined when the page requests them.
extension DeviceModel {
    /// A response has the Lock Screens of at most this many phones: those that were installed first. The limit must
    /// not exceed 65,536, because a response has two bytes for a phone's number.
    public static let screensPerResponseMax = 20_000
    /// The maximum number of phones that a response describes in full.
    public static let focusedPhonesPerResponseMax = 64
    /// The number of bytes for one phone in the property `screens` of the response (`screensJSON`).
    static let screenByteCount = 6
    /// This bit in a phone's state byte (in the property `screens` of the response, `screensJSON`) says that the last
    /// push to the shown activity had priority 10.
    static let priority10Bit: UInt8 = 0x10

    /// Writes what changed on the Lock Screens, as JSON.
    ///
    /// - `now`: UNIX milliseconds of the simulated world; `next`: the value of `since` for the next request
    /// - `phones`: the number of phones, at most ``screensPerResponseMax``; `active`, `stale`, `ended`, `gone`,
    ///   `offline`, `empty`: how many of them are in each state
    /// - `tints`: the names that decide the colours (tints) of the screens, in the order of the tints' numbers
    ///   (`StateNameTable`)
    /// - `backInTime`, `startedTwice`, `rangTwice`, `rangInDoubt`: the counts of `SenderFaultCounts`, over all phones
    /// - `screens`: base64 of six bytes for each changed phone: its number in two bytes, the low one first; its state;
    ///   the number of alerts (modulo 256); the number of the tint; a hash of the content. If the last push to the
    ///   shown activity had priority 10, 16 is added to the state
    /// - `focus`: the details of each changed phone that the parameter `focus` lists
    ///
    /// - Parameters:
    ///   - since: 0, or `next` of an earlier response.
    ///   - focus: numbers of phones; those after the first ``focusedPhonesPerResponseMax`` are ignored.
    public mutating func screensJSON(since: Int, focus: [Int], nowMilliseconds: Int64) -> [UInt8] {
        let phoneCount = min(installations.count, Self.screensPerResponseMax)
        var counts = [Int](repeating: 0, count: 6)
        for installation in 0..<phoneCount {
            counts[Int(refreshScreenState(of: installation, nowMilliseconds: nowMilliseconds).rawValue)] += 1
        }
        var screens: [UInt8] = []
        for installation in 0..<phoneCount where installations[installation].lastChangeNumber > since {
            append(installation, to: &screens)
        }
        let focusedPhones = focus.prefix(Self.focusedPhonesPerResponseMax)
            .filter { 0..<phoneCount ~= $0 && installations[$0].lastChangeNumber > since }
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("now", nowMilliseconds)
            writer.member("next", changeCount)
            writer.member("phones", phoneCount)
            for (number, count) in counts.enumerated() {
                writer.member(ScreenState(rawValue: UInt8(number))?.name ?? "", count)
            }
            writer.member("backInTime", senderFaults.ignoredOldUpdateCount)
            writer.member("startedTwice", senderFaults.duplicateStartCount)
            writer.member("rangTwice", senderFaults.faultyAlertRepeatCount)
            writer.member("rangInDoubt", senderFaults.doubtfulAlertRepeatCount)
            writer.member("tints", array: { writer in for name in stateNameTable.names { writer.string(name) } })
            writer.member("screens", Base64.text(of: screens))
            writer.member(
                "focus",
                array: { writer in
                    for installation in focusedPhones { write(screen: installation, to: &writer) }
                }
            )
        }
        return writer.bytes
    }

    /// Records the time at which a connection ended or became half open. The client may have missed the responses to
    /// its last pushes on the connection, and may then send these pushes again.
    mutating func noteLostResponses(atMilliseconds: Int64) {
        lostResponseMoments.append(atMilliseconds)
    }

    /// Counts an alert that repeats an `earlier` one. If the sender may have missed the response to the push of the
    /// earlier alert, the repeat counts as doubtful, otherwise as a fault of the sender.
    mutating func countRepeatedAlert(of earlier: Alert) {
        if lostResponseMoments.mayHaveLostResponse(rangAtMilliseconds: earlier.rangAtMilliseconds) {
            senderFaults.doubtfulAlertRepeatCount += 1
        } else {
            senderFaults.faultyAlertRepeatCount += 1
        }
    }

    /// Returns the activity that the phone shows: the youngest on its Lock Screen. If none is on the Lock Screen,
    /// returns the youngest of all; nil if the phone has had no activity.
    private func shownActivityIndex(of installation: Int) -> Int? {
        installations[installation].activityIndices.last { activities[$0].isVisible }
            ?? installations[installation].activityIndices.last
    }

    /// Returns the state of a phone's screen now. If the page last got another state, marks the phone as changed.
    private mutating func refreshScreenState(of installation: Int, nowMilliseconds: Int64) -> ScreenState {
        var state = ScreenState.empty
        if let shownActivity = shownActivityIndex(of: installation) {
            advance(shownActivity, nowMilliseconds: nowMilliseconds)
            switch activities[shownActivity].state {
            case .active:
                let isStale = activities[shownActivity].staleDateSeconds.map { nowMilliseconds / 1_000 >= $0 } ?? false
                state = isStale ? .stale : .active
            case .ended: state = .ended
            case .gone: state = .gone
            }
        }
        if !installations[installation].isInstalled { state = .empty }
        if !installations[installation].isOnline { state = .offline }
        if state != installations[installation].reportedState {
            installations[installation].reportedState = state
            markChanged(installation: installation)
        }
        return state
    }

    /// Appends the six bytes of a phone, in the form of `screens` of `screensJSON`.
    private mutating func append(_ installation: Int, to screens: inout [UInt8]) {
        var (stateByte, alertCount, tint, shade) = (
            installations[installation].reportedState.rawValue, UInt8(0), UInt8(0), UInt8(0)
        )
        if let shownActivity = shownActivityIndex(of: installation) {
            let (number, hash) = stateNameTable.nameNumberAndHash(of: activities[shownActivity].shownContentState)
            if activities[shownActivity].pushStatistics.lastPushPriority == 10 { stateByte |= Self.priority10Bit }
            alertCount = UInt8(truncatingIfNeeded: activities[shownActivity].alertCount)
            (tint, shade) = (number, UInt8(truncatingIfNeeded: hash))
        }
        screens += [
            UInt8(truncatingIfNeeded: installation), UInt8(truncatingIfNeeded: installation >> 8), stateByte,
            alertCount, tint, shade,
        ]
    }

    /// Writes the details of a phone, as in `focus` of `screensJSON`.
    private func write(screen number: Int, to writer: inout SimulatorJSONWriter) {
        let installation = installations[number]
        writer.object { writer in
            writer.member("phone", number)
            writer.member("device", installation.device)
            writer.member("app", apps[installation.appIndex].bundleId)
            writer.member("state", installation.reportedState.name)
            guard let shownActivity = shownActivityIndex(of: number) else { return }
            let activity = activities[shownActivity]
            writer.member("activity", activity.identifier)
            writer.member("attributes", json: activity.attributes)
            writer.member("content", json: activity.shownContentState)
            writer.member("timestamp", activity.shownTimestamp)
            writer.member("shownAt", activity.shownAtMilliseconds)
            writer.member("startedAt", activity.startedAtMilliseconds)
            writer.member("priority", activity.pushStatistics.lastPushPriority)
            writer.member("pushesAt5", activity.pushStatistics.priority5PushCount)
            writer.member("pushesAt10", activity.pushStatistics.priority10PushCount)
            writer.member("alerts", activity.alertCount)
            if let alert = activity.alerts.last {
                writer.member("alertAt", alert.rangAtMilliseconds)
                writer.member("alert", json: alert.json)
            }
        }
    }
}
