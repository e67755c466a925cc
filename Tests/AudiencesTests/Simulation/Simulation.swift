import ActivityStore
import Delivery
import LiveActivity
import Numbers
import Testbed

@testable import Audiences

/// One or two workers and one audience in virtual time: real cores, and models of Kafka, the store and the phones. A
/// seed determines the run.
final class Simulation {
    static let app = "com.example.match"
    static let audience = "match-1"
    /// After the last fault, the run must finish its work within this virtual time. Otherwise the run has failed.
    static let faultFreeMillisecondsMax: Int64 = 6 * 3_600_000

    struct Command {
        var number: Int
        var producedAtMilliseconds: Int64
        var version: Version
        var content: Int
        var hasAlert: Bool
        var isEnd: Bool
        var isStart: Bool
        var ending: HandoverResult?
        /// The number of ranges that the admission granted.
        var rangeCount: UInt16 = 0

        /// Whether the command was fanned out. No two commands have the same version. So the outcome `duplicate` means
        /// that this same command was fanned out before.
        var wasFannedOut: Bool { ending == .fannedOut || ending == .outcome(.duplicate) }
    }

    let seed: UInt64
    var random: SplitMix64
    let parameters: SimulationParameters
    var nowMilliseconds: Int64 = RoundHarness.startMilliseconds
    var faultsUntilMilliseconds: Int64 = 0
    var store: AudienceStoreModel
    var log: [[SimulatedFanout]]
    var committedProgress: [PartitionProgress]
    var workers: [SimulatedWorker] = []
    var owners: [Int] = []
    /// The index of the worker that reads the commands.
    var commandWorkerIndex = 0
    var commands: [Command] = []
    /// Commands that a core has got from its worker and has not given back yet.
    var commandsInCore: Set<Int> = []
    var phones: [String: SimulatedPhone] = [:]
    /// The name of each token's phone.
    var phoneNamesByToken: [String: String] = [:]
    var phoneNames: [String] = []
    var scheduledEvents: [(atMilliseconds: Int64, action: () -> Void)] = []
    var hostsUnavailableUntilMilliseconds: [Int64] = [.min, .min]
    var storeUnavailableUntilMilliseconds = Int64.min
    var violations: [String] = []
    var trace: ((String) -> Void)?
    var createdWorkerCount = 0
    var nextToken = 0
    /// The text of each range's result, by command and range. Of several results the last one stays, or the first one
    /// if later ones may lack counts: in runs of kind `ranges`, and after the store has lost its data.
    var rangeResults: [Int: [SegmentRange: String]] = [:]
    var commandResults: [Int: String] = [:]
    var broadcastResults: [Int: [APNsEnvironment: String]] = [:]
    /// The subscribers of the audience's channel, by environment.
    var subscribers: [APNsEnvironment: SimulatedSubscribers] = [:]
    /// Changes of memberships that the core has not reported as done.
    var changes: [SimulatedMembershipChange] = []
    var createdChangeCount: UInt32 = 0
    /// The newest state that the store has admitted since the last start; -1 if there is none.
    var newestAdmittedContent = -1
    var memberResultCount = 0
    var invalidationCount = 0
    /// The number of pushes that phones have received, by range.
    var pushCountsByRange: [SegmentRange: Int] = [:]
    /// Whether a worker died. Then pushes may be repeated, and older states may follow newer ones.
    var hadCrash = false
    /// Whether a partition moved before its owner had finished its work, or was added. The effects are the same.
    var hadForcedMove = false
    /// Whether a partition was added. Then a command may have no result, because the owner of another partition may
    /// have claimed one of its ranges.
    var hadPartitionAddition = false
    var hadMembershipChange = false
    /// How often a worker began to read passed-over records again.
    var rewindCount = 0
    /// The rounds with a record that a core got and had no room for.
    var roundsWithoutRoom: Set<RoundKey> = []
    var wipe = SimulatedWipe()

    init(seed: UInt64, kind: SimulationParameters.Kind) {
        self.seed = seed
        random = SplitMix64(simulationSeed: seed)
        parameters = SimulationParameters(&random, kind: kind)
        store = AudienceStoreModel(nowMilliseconds: nowMilliseconds, unarrangedPageBytesMax: RoundHarness.pageBytesMax)
        log = Array(repeating: [], count: parameters.partitionCount)
        committedProgress = Array(
            repeating: PartitionProgress(committableOffset: 0, metadata: []),
            count: parameters.partitionCount
        )
        for _ in 0..<parameters.workerCount { workers.append(makeWorker()) }
        for _ in 0..<parameters.partitionCount { owners.append(random.number(0...parameters.workerCount - 1)) }
        for partition in 0..<parameters.partitionCount { assign(partition, to: owners[partition]) }
        makeScenario()
        makeChannels()
        makeWipes()
    }

    func makeWorker() -> SimulatedWorker {
        createdWorkerCount += 1
        let worker = SimulatedWorker(number: createdWorkerCount, parameters: parameters, seed: random.next())
        // A new worker does not know whether the store has all members until it has read the marks. Only runs of this
        // kind read the marks. In the other runs no audience waits for members.
        if parameters.kind == .wipes { worker.core.membersLastCompleteAtMilliseconds = .min }
        return worker
    }

    // MARK: - The scenario

    private func makeScenario() {
        let names = parameters.hasLongIdentifiers ? SimulatedNames.longNames : SimulatedNames.names
        for number in 0..<parameters.memberCount {
            let name = names[number % parameters.segmentCount][number / parameters.segmentCount]
            addMember(name)
        }
        var atMilliseconds = nowMilliseconds
        for number in 0..<parameters.commandCount {
            atMilliseconds += Int64(random.number(1...parameters.commandGapMillisecondsMax))
            commands.append(
                Command(
                    number: number,
                    producedAtMilliseconds: atMilliseconds,
                    version: Version(
                        timestamp: RoundHarness.startSeconds + Int64(number) * [0, 1, 30][random.number(0...2)] / 30,
                        sequence: UInt64(number + 1)
                    ),
                    content: number,
                    hasAlert: random.chance(parameters.alertsPerMille),
                    isEnd: number == parameters.commandCount - 1 && random.chance(200),
                    isStart: random.chance(parameters.startsPerMille),
                    ending: nil
                )
            )
            scheduledEvents.append((atMilliseconds, {}))
        }
        for position in commands.indices.dropFirst() {
            commands[position].version.timestamp = max(
                commands[position].version.timestamp,
                commands[position - 1].version.timestamp
            )
        }
        faultsUntilMilliseconds = atMilliseconds + 2_000
        for _ in 0..<parameters.membershipChangeCount {
            scheduledEvents.append(
                (
                    nowMilliseconds + Int64(random.number(0...Int(atMilliseconds - nowMilliseconds))),
                    { [unowned self] in changeMember() }
                )
            )
        }
    }

    func makeCall(_ operation: AudienceCall<[UInt8]>.Operation) -> AudienceCall<[UInt8]> {
        AudienceCall(
            tag: 0,
            app: Array(Self.app.utf8),
            audience: Self.audienceDigest,
            operation: operation
        )
    }

    static let audienceDigest: AudienceDigest = Array(audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) }

    // MARK: - Running

    /// - Returns: the violated invariants; empty for a good run.
    func run() -> [String] {
        var nextFaultAtMilliseconds = nowMilliseconds
        let endMilliseconds = faultsUntilMilliseconds + Self.faultFreeMillisecondsMax
        while nowMilliseconds < endMilliseconds, violations.isEmpty {
            step()
            checkGauges()
            if nowMilliseconds >= nextFaultAtMilliseconds, nowMilliseconds < faultsUntilMilliseconds {
                injectFaults()
                nextFaultAtMilliseconds = nowMilliseconds + 100
            }
            if nowMilliseconds >= faultsUntilMilliseconds, isIdle { break }
            advance(nextFaultAtMilliseconds: nextFaultAtMilliseconds)
        }
        if violations.isEmpty {
            if !isIdle { violations.append("not quiet after \(Self.faultFreeMillisecondsMax) ms: \(pendingWork)") }
            checkInvariants()
        }
        return violations
    }

    private var pendingWork: String {
        workers.map { worker in
            "worker \(worker.number): \(worker.core.commandCount) commands, \(worker.core.fanoutRecordCount) records, "
                + "\(worker.core.roundCount) rounds, \(worker.core.parkedMemberCount) parked, \(worker.pushes.count) pushes, "
                + "\(worker.storeCalls.count) calls, \(worker.outgoingRecords.count) outgoing records"
        }
        .joined(separator: "; ")
    }

    private func advance(nextFaultAtMilliseconds: Int64) {
        var dueMilliseconds: Int64 =
            nowMilliseconds < faultsUntilMilliseconds ? min(nextFaultAtMilliseconds, faultsUntilMilliseconds) : .max
        for event in scheduledEvents { dueMilliseconds = min(dueMilliseconds, event.atMilliseconds) }
        if parameters.kind == .wipes { dueMilliseconds = min(dueMilliseconds, wipe.nextPollAtMilliseconds) }
        for endMilliseconds in hostsUnavailableUntilMilliseconds + [storeUnavailableUntilMilliseconds]
        where endMilliseconds > nowMilliseconds {
            dueMilliseconds = min(dueMilliseconds, endMilliseconds)
        }
        for worker in workers { dueMilliseconds = min(dueMilliseconds, worker.nextDueMilliseconds) }
        if hasUnreadRecords { dueMilliseconds = min(dueMilliseconds, nowMilliseconds + 1) }
        for worker in workers where worker.hasPassedOverRecords(atMilliseconds: nowMilliseconds) {
            dueMilliseconds = min(dueMilliseconds, nowMilliseconds + 1_000)
        }
        nowMilliseconds = max(nowMilliseconds + 1, min(dueMilliseconds, nowMilliseconds + 60_000))
        store.nowMilliseconds = nowMilliseconds
    }

    var hasUnreadRecords: Bool {
        owners.indices.contains { partition in
            workers[owners[partition]].assignments[partition]
                .map {
                    !$0.isBeingRevoked && $0.pausedUntilMilliseconds <= nowMilliseconds
                        && $0.nextOffset < log[partition].count
                }
                ?? true
        }
    }

    private var isIdle: Bool {
        scheduledEvents.isEmpty && !hasUnreadRecords && changes.isEmpty && commands.allSatisfy { $0.ending != nil }
            && wipe.isOver && workers.allSatisfy(\.isIdle)
    }

    private func step() {
        let due = scheduledEvents.filter { $0.atMilliseconds <= nowMilliseconds }
        scheduledEvents.removeAll { $0.atMilliseconds <= nowMilliseconds }
        for event in due.sorted(by: { $0.atMilliseconds < $1.atMilliseconds }) { event.action() }
        readMarks()
        for worker in workers {
            feedCore(worker)
            deliverReplies(worker)
            deliverResponses(worker)
            deliverReports(worker)
            worker.core.advance(now: worker.moment(nowMilliseconds))
            performActions(worker)
            takeReturnedCommands(worker)
            takeMembersToSettle(worker)
            commit(worker)
        }
    }

    private func feedCore(_ worker: SimulatedWorker) {
        if workers[commandWorkerIndex] === worker { feedChanges(worker) }
        if workers[commandWorkerIndex] === worker {
            for position in commands.indices
            where commands[position].producedAtMilliseconds <= nowMilliseconds && commands[position].ending == nil
                && !commandsInCore.contains(position) && !wipe.isDraining && worker.core.canReceiveCommand
            {
                commandsInCore.insert(position)
                readCommand(commands[position], as: UInt32(position), by: worker)
            }
            feedRereadCommands(worker)
            worker.core.endBatch(now: worker.moment(nowMilliseconds))
        }
        for (partition, entry) in worker.assignments.sorted(by: { $0.key < $1.key }) where !entry.isBeingRevoked {
            if let rewind = worker.core.rewindRequest(entry.indexInCore, now: worker.moment(nowMilliseconds)) {
                worker.core.handleRewind(entry.indexInCore, from: rewind.offset, now: worker.moment(nowMilliseconds))
                worker.assignments[partition]?.nextOffset = rewind.offset
                worker.assignments[partition]?.pausedUntilMilliseconds = nowMilliseconds + rewind.pauseMilliseconds
                rewindCount += 1
            }
            guard let entry = worker.assignments[partition], nowMilliseconds >= entry.pausedUntilMilliseconds else {
                continue
            }
            var next = entry.nextOffset
            while next < log[partition].count {
                let record = log[partition][Int(next)]
                record.value.withUnsafeBytes { value in
                    worker.core.receiveFanoutRecord(
                        IncomingRecord(
                            partitionIndex: entry.indexInCore,
                            offset: next,
                            timestampMilliseconds: nowMilliseconds,
                            key: nil,
                            value: value
                        ),
                        instruction: record.instruction,
                        now: worker.moment(nowMilliseconds)
                    )
                }
                noteIfWithoutRoom(record, at: next, of: entry.indexInCore, worker)
                next += 1
            }
            worker.assignments[partition]?.nextOffset = next
        }
    }

    func aps(_ command: Command) -> String {
        let state = "\"timestamp\":\(command.version.timestamp),\"content-state\":{\"c\":\(command.content)}"
        guard !command.isStart else {
            return "{\"event\":\"start\",\"attributes-type\":\"Match\",\"attributes\":{},"
                + "\"alert\":{\"title\":\"begins\",\"body\":\"b\"},\(state)}"
        }
        let alert = command.hasAlert ? "\"alert\":{\"title\":\"alert-\(command.number)\",\"body\":\"b\"}," : ""
        return "{\(alert)\"event\":\"\(command.isEnd ? "end" : "update")\",\(state)}"
    }

    /// The template of the activity ids that a start creates.
    static let activityTemplate = "match-{device}"

    private func template(_ command: Command) -> String {
        command.isStart ? "\"activity\":\"\(Self.activityTemplate)\"," : ""
    }

    /// Lets a worker read a command, as the record with this number, and hand it over to its core.
    func readCommand(_ command: Command, as record: UInt32, by worker: SimulatedWorker) {
        let text = Array(
            "{\"app\":\"\(Self.app)\",\"audience\":\"\(Self.audience)\",\(template(command))\"id\":\"\(command.number)\",\"sequence\":\(command.version.sequence),\"priority\":10,\"aps\":\(aps(command))}"
                .utf8
        )
        text.withUnsafeBytes { text in
            guard let decoded = try? LiveActivity.Command.decode(text) else {
                return violations.append("a command does not decode")
            }
            var body = [UInt8](repeating: 0, count: decoded.bodyByteCount)
            let layout = body.withUnsafeMutableBytes { PushBody.write(decoded, from: text, into: $0) }
            let templateText = Array((command.isStart ? Self.activityTemplate : "").utf8)
            templateText.withUnsafeBytes { template in
                handOver(command, as: record, decoded, body, layout, template, to: worker)
            }
        }
    }

    private func handOver(
        _ command: Command,
        as record: UInt32,
        _ decoded: LiveActivity.Command,
        _ body: [UInt8],
        _ layout: PushBody.Layout,
        _ template: UnsafeRawBufferPointer,
        to worker: SimulatedWorker
    ) {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let (audience, identifier) = (Array(Self.audience.utf8), Array("\(command.number)".utf8))
        body.withUnsafeBytes { body in
            audience.withUnsafeBytes { audience in
                identifier.withUnsafeBytes { identifier in
                    let incoming = IncomingCommand(
                        record: RecordIndex(rawValue: record),
                        appIndex: 0,
                        audience: audience,
                        event: decoded.event,
                        activityTemplate: template,
                        version: decoded.version,
                        priority: 10,
                        policyIndex: 0,
                        policyName: none,
                        // A start always has an expiration, which follows from its maximum age.
                        ownExpirationSeconds: command.isStart ? command.version.timestamp + 43_200 : -1,
                        staleDateSeconds: -1,
                        identifier: identifier,
                        body: body,
                        bodyLayout: layout,
                        partition: 0,
                        offset: Int64(command.number),
                        recordTimestampMilliseconds: command.producedAtMilliseconds,
                        receivedAtWallMilliseconds: nowMilliseconds,
                        trace: none
                    )
                    worker.core.receiveCommand(incoming)
                }
            }
        }
    }

    private func takeReturnedCommands(_ worker: SimulatedWorker) {
        while let returnedCommand = worker.core.takeReturnedCommand() {
            let number = Int(returnedCommand.record.rawValue)
            guard workers[commandWorkerIndex] === worker, !takeReturnedRereadCommand(returnedCommand) else { continue }
            commandsInCore.remove(number)
            trace?("\(nowMilliseconds % 1_000_000) command \(number): \(returnedCommand.handoverResult)")
            if returnedCommand.handoverResult != .dropped { commands[number].ending = returnedCommand.handoverResult }
        }
    }

    private func commit(_ worker: SimulatedWorker) {
        for (partition, entry) in worker.assignments {
            guard let progress = worker.core.composeProgress(entry.indexInCore),
                progress.committableOffset >= committedProgress[partition].committableOffset
            else { continue }
            committedProgress[partition] = progress
        }
    }
}
