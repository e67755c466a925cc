import CHiredis
import Glibc
import LiveActivity
import Numbers
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Compares the scripts on a real server with their model, over random histories (R11). All replies must be equal.
/// After each set of histories, the stored values and their expiry times must be equal, too.
///
/// A history is a number of operations on one key. The 1,000 histories of a set run in one pipeline. The scripts take
/// the time of each call from a list instead of the server's clock.
@Suite(.serialized, .ownThread) struct DifferentialTests {
    static let historiesPerSet = 1_000
    /// The number of histories; `CAUSEWAY_DIFFERENTIAL_HISTORIES` changes it. A million take some minutes in a release
    /// build.
    static let historyCount =
        ProcessInfoVariable.integer("CAUSEWAY_DIFFERENTIAL_HISTORIES") ?? 20 * historiesPerSet

    @Test func `Replies and hashes are equal to the model's`() throws {
        let comparison = try DifferentialRunner()
        let setCount = (Self.historyCount + Self.historiesPerSet - 1) / Self.historiesPerSet
        for set in 0..<setCount {
            // In each set with an odd number, all histories use the same clock and the same two paces. One Redis
            // command has room for only `pacesMax` different paces. So in these sets many calls share one command, like
            // the calls of a worker.
            let sharesClockAndPaces = set % 2 == 1
            let seeds = (0..<Self.historiesPerSet).map { UInt64(set * Self.historiesPerSet + $0) }
            let paceSeed = sharesClockAndPaces ? UInt64(set) : nil
            try comparison.run(
                seeds.map { OperationHistory(seed: $0, paceSeed: paceSeed) },
                sharesClock: sharesClockAndPaces
            )
        }
        // The histories must test every verdict, and every letter for the phase of the newest version.
        #expect(Set(comparison.verdictCounts.keys) == Set(StoreVerdict.allCases))
        #expect(comparison.commandCount < comparison.callCount * 9 / 10)
        let expectedLetters = Set("nwabhkilxysf").union("WAHKILXYSF")
        let phaseLetters = Set(comparison.phaseLetterCounts.keys)
        #expect(phaseLetters == expectedLetters, "missing: \(expectedLetters.subtracting(phaseLetters))")
        let performedHistoryCount = setCount * Self.historiesPerSet
        print(
            "\(performedHistoryCount) histories, \(comparison.callCount) calls in \(comparison.commandCount) commands: no difference"
        )
    }
}

/// Reads numbers from the environment, without Foundation.
enum ProcessInfoVariable {
    static func integer(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }
}

/// A caller that acts as a lane, and its server. Compares each reply with the model's. The server's scripts take their
/// times from a list.
private final class DifferentialRunner {
    let server: RedisServer
    let caller: StoreCaller
    private let hiredisContext: UnsafeMutablePointer<redisContext>
    private var expectedEvents: [StoreCaller.Event] = []
    private var receivedCount = 0
    private var differences: [String] = []
    private(set) var verdictCounts: [StoreVerdict: Int] = [:]
    private(set) var phaseLetterCounts: [Character: Int] = [:]
    private(set) var callCount = 0
    /// The number of EVALSHA commands that carried the calls.
    var commandCount: Int { server.callCount(of: "evalsha") }
    private var random = SplitMix64(seed: 11)

    init() throws {
        server = try RedisServer()
        var configuration = try RedisConfiguration(url: RedisURL(server.unixURL))
        // The deadline is longer than a worker's, because the machine may be busy.
        configuration.replyDeadlineMilliseconds = 120_000
        caller = try StoreCaller(configuration)
        try #require(caller.runLoopUntilReady())
        hiredisContext = try #require(redisConnectUnix(server.socketPath))
        try server.loadScriptsWithListedTimes(try caller.connection())
        caller.onEvent = { [unowned self] event in compare(event) }
    }

    deinit {
        redisFree(hiredisContext)
    }

    private func compare(_ event: StoreCaller.Event) {
        if case .replied(_, let reply) = event { verdictCounts[reply.verdict, default: 0] += 1 }
        if receivedCount >= expectedEvents.count || event != expectedEvents[receivedCount] {
            let expectedText = receivedCount < expectedEvents.count ? "\(expectedEvents[receivedCount])" : "nothing"
            if differences.count < 10 { differences.append("\(event), the model: \(expectedText)") }
        }
        receivedCount += 1
        caller.events.removeAll(keepingCapacity: true)
    }

    func run(_ histories: [OperationHistory], sharesClock: Bool) throws {
        var histories = histories
        var model = StoreModel(nowMilliseconds: 0)
        var operations: [OperationHistory.Step] = []
        var unfinishedHistories = Array(histories.indices)
        while !unfinishedHistories.isEmpty {
            var pass: [OperationHistory.Step] = []
            unfinishedHistories.removeAll { index in
                guard let operation = histories[index].nextStep(index) else { return true }
                pass.append(operation)
                return false
            }
            if sharesClock, let clock = pass.first?.performedAtMicroseconds {
                for index in pass.indices { pass[index].performedAtMicroseconds = clock }
            }
            // The operations of one pass have different keys, so the test may change their order. If they are sorted by
            // kind, many fit into one Redis command; otherwise few do.
            operations += random.below(4) == 0 ? pass : pass.filter(\.isCommand) + pass.filter { !$0.isCommand }
        }
        server.command("FLUSHALL")
        appendCallTimes(operations)
        expectedEvents.removeAll(keepingCapacity: true)
        receivedCount = 0
        for (tag, operation) in operations.enumerated() {
            model.nowMilliseconds = operation.performedAtMicroseconds / 1_000
            expectedEvents.append(.replied(UInt64(tag), model.perform(operation.call(tag: UInt64(tag)))))
            try #require(
                caller.issueWhenPossible { store in
                    operation.call(tag: UInt64(tag)).withBorrowedBytes { store.issue($0) }
                }
            )
            if random.below(60) == 0 { caller.loop.runIteration(waitMilliseconds: 0) }
        }
        try #require(
            caller.runLoop(limitMilliseconds: 120_000) { receivedCount == operations.count || !differences.isEmpty }
        )
        try #require(differences.isEmpty, "\(differences)\n\(operationsText(operations))")
        callCount += operations.count
        try compare(histories, operations, model)
    }

    private func appendCallTimes(_ operations: [OperationHistory.Step]) {
        var index = 0
        while index < operations.count {
            let end = min(index + 1_000, operations.count)
            performCommand(["RPUSH", "times"] + operations[index..<end].map { String($0.performedAtMicroseconds) })
            index = end
        }
    }

    private func compare(_ histories: [OperationHistory], _ operations: [OperationHistory.Step], _ model: StoreModel)
        throws
    {
        let keys = histories.indices.map { histories[$0].key(at: $0) }
        for key in keys {
            withArguments([key.kind == .activity ? "GET" : "HGETALL", key.text]) { count, pointers, lengths in
                _ = redisAppendCommandArgv(hiredisContext, count, pointers, lengths)
            }
        }
        let expiry = server.hash("expiry")
        for (index, key) in keys.enumerated() {
            let storedFields = readNextStoredFields()
            let expected: [String: [UInt8]]
            let expectedExpiryMilliseconds: Int64?
            switch key.kind {
            case .activity:
                expected = model.activities[key.text]?.fields ?? [:]
                expectedExpiryMilliseconds = model.activities[key.text]?.expiresAtMilliseconds
                if let fixedPart = storedFields[ActivityPart.fixed], fixedPart.count >= StoredActivity.tokenByteOffset {
                    // The byte is the phase's letter and two bits. Bit 128 (a draw) belongs to no letter. Bit 64 (the
                    // own timestamp) belongs to every letter.
                    let letter = fixedPart[StoredActivity.phaseByteOffset] & 127 | 64
                    phaseLetterCounts[Character(Unicode.Scalar(letter)), default: 0] += 1
                }
            case .device:
                expected = model.devices[key.text]?.fields ?? [:]
                expectedExpiryMilliseconds = model.devices[key.text]?.expiresAtMilliseconds
            }
            let operationsOfKey = { operations.filter { $0.index == index } }
            try #require(
                storedFields == expected,
                "\(storedFields.mapValues(text)), the model: \(expected.mapValues(text))\n\(operationsText(operationsOfKey()))"
            )
            let storedExpiryMilliseconds = expiry[key.text].flatMap { Self.parseExpiry(text($0)) }
            try #require(storedExpiryMilliseconds == expectedExpiryMilliseconds, "\(operationsText(operationsOfKey()))")
        }
    }

    /// Reads an expiry time in UNIX milliseconds from the text `microseconds+milliseconds`: the time of the call, and
    /// how long after it the key expires.
    private static func parseExpiry(_ text: String) -> Int64? {
        let parts = text.split(separator: "+").compactMap { Int64($0) }
        return parts.count == 2 ? parts[0] / 1_000 + parts[1] : nil
    }

    private func operationsText(_ operations: [OperationHistory.Step]) -> String {
        operations.count > 100 ? "" : operations.map { "\($0)" }.joined(separator: "\n")
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private func readNextStoredFields() -> [String: [UInt8]] {
        var rawReply: UnsafeMutableRawPointer?
        guard redisGetReply(hiredisContext, &rawReply) == REDIS_OK, let rawReply else { return [:] }
        defer { freeReplyObject(rawReply) }
        let reply = rawReply.assumingMemoryBound(to: redisReply.self).pointee
        if reply.type == REDIS_REPLY_STRING {
            return activityParts(Array(UnsafeRawBufferPointer(start: reply.str, count: Int(reply.len))))
        }
        var fields: [String: [UInt8]] = [:]
        for index in stride(from: 0, to: Int(reply.elements) - 1, by: 2) {
            guard let name = reply.element[index], let value = reply.element[index + 1] else { continue }
            let bytes = Array(UnsafeRawBufferPointer(start: value.pointee.str, count: Int(value.pointee.len)))
            if !bytes.isEmpty { fields[String(cString: name.pointee.str)] = bytes }
        }
        return fields
    }

    private func performCommand(_ arguments: [String]) {
        let rawReply = withArguments(arguments) { redisCommandArgv(hiredisContext, $0, $1, $2) }
        if let rawReply { freeReplyObject(rawReply) }
    }

    private func withArguments<Result>(
        _ arguments: [String],
        _ body: (Int32, UnsafeMutablePointer<UnsafePointer<CChar>?>, UnsafePointer<Int>) -> Result
    ) -> Result {
        let copies = arguments.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        var pointers = copies.map { UnsafePointer($0) }
        let lengths = arguments.map(\.utf8.count)
        return body(Int32(arguments.count), &pointers, lengths)
    }
}

extension OperationHistory.Step {
    fileprivate var isCommand: Bool { if case .admit = operation { true } else { false } }

    fileprivate func call(tag: UInt64) -> StoreCall<[UInt8]> { key.call(operation, tag: tag) }
}

// MARK: - The model's state as the server stores it

extension ActivityState {
    /// The letter that the scripts would store for the phase of the newest version. The model itself stores no letter.
    private var letter: Character {
        let alert = heldCommand?.hasAlert ?? false
        let letter: Character =
            switch versionPhase {
            case .waiting: heldCommand == nil ? "w" : "x"
            case .sending where heldCommand == nil: "a"
            case .sending: newestIsHeld ? alert ? "l" : "k" : "y"
            case .startSending: "b"
            case .held: alert ? "i" : "h"
            case .settled: "s"
            case .notShown: "f"
            }
        return newestIsEnd ? Character(letter.uppercased()) : letter
    }

    /// The parts of the value that the scripts would store for the state, by their names in ``ActivityPart``.
    var fields: [String: [UInt8]] {
        guard newestVersion != nil || pace != nil || registeredAtMilliseconds != nil else { return [:] }
        let formAndToken = token.map { Array(storedToken($0.token, $0.environment)) } ?? []
        let storedTokenBytes = formAndToken.dropFirst()
        var fields: [String: [UInt8]] = [:]
        fields[ActivityPart.fixed] = fixedPart(tokenForm: formAndToken.first, tokenByteCount: storedTokenBytes.count)
        if !storedTokenBytes.isEmpty { fields[ActivityPart.token] = Array(storedTokenBytes) }
        if let acceptedAlertVersion { fields[ActivityPart.acceptedAlert] = bytes(acceptedAlertVersion) }
        if !audiences.isEmpty {
            let digests = audiences.currentDigests + audiences.formerDigests
            fields[ActivityPart.audiences] = [
                UInt8(audiences.currentDigests.count), UInt8(audiences.formerDigests.count),
            ]
            fields[ActivityPart.audiences]? += digests.flatMap { bytes($0, 8) }
        }
        if retiredToken != nil { fields[ActivityPart.retiredToken] = [1] }
        if let heldCommand {
            fields[ActivityPart.heldCommand] = versionText(heldCommand.version) + heldCommand.command
        }
        if let pace, let throttledAtMilliseconds = pace.throttledAtMilliseconds {
            fields[ActivityPart.throttle] = bytes(pace.spacingDoublingCount, 1) + bytes(throttledAtMilliseconds, 6)
        }
        if let start {
            fields[ActivityPart.start] = bytes(start.version)
            if let claim = start.claim {
                // The letter says whether the start was read again, is settled, or is being sent.
                let startLetter = UInt8(ascii: start.isRecordedAgain ? "r" : start.isSettled ? "s" : "a")
                fields[ActivityPart.start]?.append(startLetter)
                fields[ActivityPart.start]? += bytes(start.assignedTimestamp, 5) + bytes(claim, 8)
            }
        }
        return fields
    }

    /// The bytes before the token. The numbers are written here again, so that the test fails if `StoredActivity` or a
    /// script has a wrong number.
    private func fixedPart(tokenForm: UInt8?, tokenByteCount: Int) -> [UInt8] {
        // A token's form is stored as a number: the place of its letter in this list, from 1. 0 means no token.
        let formLetters = Array("PSps".utf8)
        let (frequentUpdatesFlag, throttleFlag, claimFlag, startFlag, retiredTokenFlag) = (8, 16, 32, 64, 128)
        let (audiencesFlag, acceptedAlertFlag) = (16_384, 32_768)
        let (ownTimestampBit, hasDrawnBit) = (64, 128)
        var formAndFlags = tokenForm.flatMap { form in formLetters.firstIndex(of: form) }.map { $0 + 1 } ?? 0
        if pace?.allowsFrequentUpdates ?? false { formAndFlags += frequentUpdatesFlag }
        if pace?.throttledAtMilliseconds != nil { formAndFlags += throttleFlag }
        if start?.claim != nil { formAndFlags += claimFlag }
        if start != nil { formAndFlags += startFlag }
        if retiredToken != nil { formAndFlags += retiredTokenFlag }
        var tokenByteCountAndFlags = tokenByteCount
        if acceptedAlertVersion != nil { tokenByteCountAndFlags += acceptedAlertFlag }
        if !audiences.isEmpty { tokenByteCountAndFlags += audiencesFlag }
        let noVersionLetter: Character = "n"
        let isOwnTimestamp = lastAssignedTimestamp == newestVersion?.timestamp ?? 0
        // Every letter has the bit of the own timestamp. The scripts take the bit away if the last timestamp is not the
        // version's own.
        var phaseByte = Int((newestVersion == nil ? noVersionLetter : letter).asciiValue ?? 0)
        if hasDrawnOnBudget { phaseByte += hasDrawnBit }
        if !isOwnTimestamp { phaseByte -= ownTimestampBit }
        var fixedPart = bytes(pace?.updatesUntilSeconds ?? 0, 4)
        fixedPart += bytes(tokenByteCountAndFlags, 2)
        fixedPart += bytes(formAndFlags, 1)
        fixedPart += bytes(shownDigest ?? 0, 6)
        fixedPart += bytes(phaseByte, 1)
        fixedPart += bytes(lastSendAtMilliseconds, 6)
        fixedPart += newestVersion.map(bytes) ?? [UInt8](repeating: 0, count: 13)
        fixedPart += bytes(pace?.budgetFullAtMilliseconds ?? 0, 6)
        fixedPart += bytes(isOwnTimestamp ? 0 : lastAssignedTimestamp, 5)
        fixedPart += bytes(registeredAtMilliseconds ?? 0, 6)
        return fixedPart
    }
}

extension DeviceState {
    /// The fields of the hash that the scripts would store for the state: `admit-devices.lua` describes them.
    var fields: [String: [UInt8]] {
        var fields: [String: [UInt8]] = [:]
        if startBudgetFullAtMilliseconds != 0 { fields["s"] = Array(padded(startBudgetFullAtMilliseconds, 13).utf8) }
        if let refundSum = refundedMilliseconds { fields["s"]? += Array(padded(refundSum, 13).utf8) }
        if !formerAudiences.isEmpty {
            fields["l"] = bytes(leftAtMilliseconds, 6) + formerAudiences.flatMap { bytes($0, 8) }
        }
        for (type, typeState) in statesByAttributesType {
            if !typeState.audiences.isEmpty { fields["m:\(type)"] = typeState.audiences.flatMap { bytes($0, 8) } }
            addToken(typeState.token, typeState.registeredAtMilliseconds, suffix: ":\(type)", to: &fields)
            if let retiredToken = typeState.retiredToken {
                fields["d:\(type)"] = Array(storedToken(retiredToken.token, retiredToken.environment))
            }
            if typeState.heldStarts.isEmpty { continue }
            fields["w:\(type)"] = typeState.heldStarts.flatMap { start in
                let activity = start.activity
                return bytes(activity.count, 2) + bytes(start.command.count, 4) + versionText(start.version) + activity
                    + start.command
            }
        }
        return fields
    }
}

private func padded(_ number: some BinaryInteger, _ digits: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
}

private func versionText(_ version: Version) -> [UInt8] {
    Array((padded(version.timestamp, 10) + padded(version.sequence, 20)).utf8)
}

private func bytes(_ number: some BinaryInteger, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
}

private func bytes(_ version: Version) -> [UInt8] {
    bytes(version.timestamp, 5) + bytes(version.sequence, 8)
}

private func addToken(_ token: OwnedToken?, _ registeredAt: Int64?, suffix: String, to fields: inout [String: [UInt8]])
{
    guard let registeredAt else { return }
    var stored = Array(padded(registeredAt, StoredTime.digitCount).utf8)
    if let token { stored += storedToken(token.token, token.environment) }
    fields["t\(suffix)"] = Array(stored.prefix(64))
    if stored.count > 64 { fields["u\(suffix)"] = Array(stored[64...]) }
}
