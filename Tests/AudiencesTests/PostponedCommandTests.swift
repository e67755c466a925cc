import ActivityStore
import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Redis asks a command to wait for its audience's budget. Meanwhile other commands of the audience arrive. The waiting
/// command becomes the next one again, because Redis must admit it before a newer start.
@Suite struct PostponedCommandTests {
    /// Numbers the commands 1, 2, 3 and so on, and returns their endings.
    private func endings(of first: Event, later: [Event]) -> [String] {
        endings(of: (1, first), later: later.enumerated().map { (2 + $0, $1) })
    }

    /// Hands over the first command. While Redis decides about it, hands over the later ones. Then lets Redis ask the
    /// first one to wait.
    ///
    /// - Parameters:
    ///   - first: the number and the event of the first command. A higher number is a newer version.
    ///   - later: the numbers and events of the later commands.
    /// - Returns: the commands in the order in which the core returned them, each with its ending.
    private func endings(of first: (Int, Event), later: [(Int, Event)]) -> [String] {
        let harness = RoundHarness()
        let expirationSeconds = harness.nowMilliseconds / 1_000 + 3_600
        harness.handOver(first.0, first.1, expirationSeconds: first.1 == .start ? expirationSeconds : -1)
        return endings(in: harness) {
            for (number, event) in later {
                harness.handOver(number, event, expirationSeconds: event == .start ? expirationSeconds : -1)
            }
        }
    }

    /// Lets the core begin its first command. While Redis decides about it, calls `handOverLater`. Then lets Redis ask
    /// the first command to wait.
    ///
    /// - Parameters:
    ///   - isAdmitted: whether Redis admits the first command instead.
    ///   - isReplyFirst: whether `handOverLater` is called after Redis' reply instead.
    /// - Returns: the commands in the order in which the core returned them, each with its ending.
    private func endings(
        in harness: RoundHarness,
        isAdmitted: Bool = false,
        isReplyFirst: Bool = false,
        handOverLater: () -> Void
    ) -> [String] {
        harness.core.endBatch(now: harness.moment)
        while let call = harness.nextCall() {
            guard case .admit = call.operation else {
                harness.reply(to: call)
                continue
            }
            if !isReplyFirst {
                handOverLater()
                harness.core.endBatch(now: harness.moment)
            }
            if isAdmitted {
                harness.reply(to: call)
            } else {
                replyWait(to: call, of: harness)
            }
            if isReplyFirst { handOverLater() }
            break
        }
        return finishAllCommands(of: harness)
    }

    /// Lets Redis admit the commands that are left, and returns all endings.
    private func finishAllCommands(of harness: RoundHarness) -> [String] {
        harness.performPendingWork()
        for _ in 0..<3 { harness.advanceClock(milliseconds: 60_000) }
        var endings: [String] = []
        while let command = harness.core.takeReturnedCommand() {
            if case .outcome(let outcome) = command.handoverResult {
                endings.append("\(command.record.rawValue) \(outcome)")
            } else {
                endings.append("\(command.record.rawValue) \(command.handoverResult)")
            }
        }
        return endings
    }

    /// Lets the core ask Redis about its next command, and lets Redis ask the command to wait.
    ///
    /// - Parameter beforeReply: is called while Redis decides.
    private func postponeNextCommand(of harness: RoundHarness, beforeReply: () -> Void = {}) {
        harness.core.endBatch(now: harness.moment)
        while let call = harness.nextCall() {
            guard case .admit = call.operation else {
                harness.reply(to: call)
                continue
            }
            beforeReply()
            replyWait(to: call, of: harness)
            return
        }
        Issue.record("the core asks Redis about no command")
    }

    private func replyWait(to call: AudienceCall<[UInt8]>, of harness: RoundHarness) {
        var reply = AudienceReply<[UInt8]>(.wait)
        reply.waitMilliseconds = 1_000
        reply.withBorrowedBytes { harness.core.handleStoreReply(tag: call.tag, $0, now: harness.moment) }
    }

    /// If Redis admitted the start first, it would supersede the end, and the earlier life would not be ended. (R13)
    @Test func `An end is sent before a start that arrived later, although an update waits between them`() {
        #expect(endings(of: .end, later: [.update, .start]) == ["1 fannedOut", "2 ended", "3 fannedOut"])
    }

    @Test func `A newer update replaces an update, and is sent before the start`() {
        #expect(endings(of: .update, later: [.update, .start]) == ["1 superseded", "2 fannedOut", "3 fannedOut"])
    }

    /// The end arrived late: its version is older than both updates. Redis decides about the end first, and only the
    /// newer update waits behind it.
    @Test func `A newer update behind a late end supersedes an update that waits again`() {
        let endings = endings(of: (7, .update), later: [(3, .end), (8, .update)])
        #expect(endings == ["7 superseded", "3 fannedOut", "8 ended"])
    }

    @Test func `A newer end replaces an update and the older end before it`() {
        let endings = endings(of: (1, .update), later: [(3, .end), (7, .update), (9, .end)])
        #expect(endings == ["7 superseded", "3 superseded", "1 superseded", "9 fannedOut"])
    }

    @Test func `Of two ends before an update, the newer one is sent`() {
        let endings = endings(of: (1, .update), later: [(7, .update), (3, .end), (4, .end)])
        #expect(endings == ["3 superseded", "1 superseded", "4 fannedOut", "7 ended"])
    }

    @Test func `An end that waits again supersedes the older end and the older update`() {
        let endings = endings(of: (10, .end), later: [(5, .end), (8, .update)])
        #expect(endings == ["5 superseded", "8 superseded", "10 fannedOut"])
    }

    @Test func `A start is sent before an update that arrived later`() {
        #expect(endings(of: .start, later: [.update]) == ["1 fannedOut", "2 fannedOut"])
    }

    @Test func `An end is sent before a start that arrived directly behind it`() {
        #expect(endings(of: .end, later: [.start]) == ["1 fannedOut", "2 fannedOut"])
    }

    /// Command 2 carries the alert of command 1. While Redis decides about command 2, or while it waits again, the
    /// commands' partition is lost and comes back, so both records are read again, as the records 11 and 12. If the new
    /// copy of command 1 ended before command 2, its record would settle, and a crash would lose the alert.
    @Test(arguments: [false, true])
    func `A new copy of a command whose alert is carried ends with the command that carries it`(isReplyFirst: Bool) {
        let harness = RoundHarness()
        harness.handOver(1, .update, hasAlert: true)
        harness.handOver(2, .update)
        let endings = endings(in: harness, isReplyFirst: isReplyFirst) {
            harness.handOver(1, .update, hasAlert: true, record: 11)
            harness.handOver(2, .update, record: 12)
        }
        #expect(endings == ["1 duplicate", "2 duplicate", "11 superseded", "12 fannedOut"])
        #expect(harness.core.commandCount == 0)
    }

    /// As above, but Redis admits command 2, which carries the alert. If the new copy of command 1 waited, command 3
    /// would carry the alert too.
    @Test func `A carried alert does not ring again with a newer command after its record was read again`() {
        let harness = RoundHarness()
        harness.handOver(1, .update, hasAlert: true)
        harness.handOver(2, .update)
        let endings = endings(in: harness, isAdmitted: true) {
            harness.handOver(1, .update, hasAlert: true, record: 11)
            harness.handOver(2, .update, record: 12)
            harness.handOver(3, .update, record: 13)
        }
        #expect(endings == ["1 duplicate", "2 duplicate", "11 superseded", "12 fannedOut", "13 fannedOut"])
        let recordsWithAlert = harness.producedRecords.filter { $0.contains("\"alert\"") }
        #expect(recordsWithAlert.count == 1 && recordsWithAlert.allSatisfy { $0.contains("\"c\":2}") })
        #expect(harness.core.commandCount == 0)
    }

    /// The partition of command 1 is lost and comes back while command 1 waits again, so its record is read again, as
    /// record 11. A start of another partition is between the two copies, until that partition is revoked. If the new
    /// copy ended first, its record would settle, and a crash would lose the command.
    @Test func `A command that waits again continues for the new copy of its record, which waited behind a start`() {
        let harness = RoundHarness()
        harness.handOver(1, .update)
        postponeNextCommand(of: harness)
        harness.handOver(2, .start, expirationSeconds: harness.nowMilliseconds / 1_000 + 3_600)
        harness.handOver(1, .update, record: 11)
        harness.nowMilliseconds += 2_000
        harness.core.advance(now: harness.moment)
        postponeNextCommand(of: harness) { harness.core.dropWaitingCommands { $0.rawValue == 2 } }
        #expect(finishAllCommands(of: harness) == ["2 dropped", "1 duplicate", "11 fannedOut"])
        #expect(harness.core.commandCount == 0)
    }

    /// Both command 1 and command 2 have alerts. While Redis decides about command 2, the record of command 1 is read
    /// again, and command 3 replaces this copy. Command 3 must not carry the alert of command 1, which is older than
    /// the alert under way. If command 2 must wait again, command 3 carries the alert of command 2. (R14)
    @Test(arguments: [true, false])
    func `The alert of a copy that is read again does not ring after a newer alert`(isAdmitted: Bool) {
        let harness = RoundHarness()
        let firstTimestamp = harness.nowMilliseconds / 1_000 + 1
        harness.handOver(1, .update, hasAlert: true)
        harness.handOver(2, .update, hasAlert: true)
        let endings = endings(in: harness, isAdmitted: isAdmitted) {
            harness.handOver(1, .update, hasAlert: true, record: 11)
            harness.handOver(3, .update, record: 13)
        }
        let endingOfCommand2 = isAdmitted ? "2 fannedOut" : "2 superseded"
        #expect(endings == ["1 superseded", "11 superseded", endingOfCommand2, "13 fannedOut"])
        let recordsWithAlert = harness.producedRecords.filter { $0.contains("\"alert\"") }
        let carrier = isAdmitted ? "\"c\":2}" : "\"c\":3}"
        #expect(recordsWithAlert.count == 1 && recordsWithAlert.allSatisfy { $0.contains(carrier) })
        let carriedAlertTimestamps = harness.instructions.compactMap { $0.carriedAlertVersion?.timestamp }
        #expect(carriedAlertTimestamps == (isAdmitted ? [] : [firstTimestamp + 1]))
        #expect(harness.core.commandCount == 0)
    }

    /// Command 3650 carries the alert of command 1, which becomes too old. While command 3650 waits again, a late
    /// command brings another alert.
    @Test func `A command whose carried alert became too old can carry the alert of another command`() {
        let harness = RoundHarness()
        harness.handOver(1, .update, hasAlert: true)
        harness.handOver(3_650, .update)
        // The policy's limit for alerts is an hour.
        harness.nowMilliseconds += 3_602_000
        let endings = endings(in: harness) { harness.handOver(10, .update, hasAlert: true) }
        #expect(endings == ["1 superseded", "10 superseded", "3650 fannedOut"])
        #expect(harness.core.commandCount == 0)
        #expect(harness.producedRecords.contains { $0.contains("\"c\":3650") && $0.contains("\"alert\"") })
    }
}
