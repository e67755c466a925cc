import ActivityStore
import CausewayCommandLine
import CausewayConfiguration
import Foundation
import Kafka
import LiveActivity
import Redis

import enum CausewayRecords.JSONValue

/// Writes commands of the range to the commands topic again, at a given rate. A copy keeps the record's timestamp in
/// Kafka: the command may carry a token, and with a new timestamp this old token would replace a newer registration.
///
/// A command that Redis has settled, but that no phone ever showed, is first reopened in Redis
/// (``StoreCall/Operation/reopen(version:)``), so that Redis admits its version again. If the replay is killed before
/// it writes the copy, Redis treats the command as under way until a newer state comes.
struct ReplaySender {
    /// How long Kafka may take to acknowledge a record. It is shorter than a worker's 120 s (`KafkaProperties`),
    /// because a user waits. The configuration can change it.
    private static let deliveryTimeoutProperties = [(name: "delivery.timeout.ms", value: "30000")]
    /// How long to wait for the last acknowledgements after the user has asked to stop.
    private static let stopFlushTimeoutMilliseconds: Int64 = 2_000
    /// After this many failed records, the sending ends, because further records would probably fail too.
    static let failuresMax = 100

    private let redis: RedisConfiguration
    private let sourceTopic: String
    private var sender: RecordSender
    private var store: BlockingStore?
    /// For each copy of a reopened command, by the copy's number (its tag at the producer): the call that settles the
    /// command's version again if the copy does not reach Kafka.
    private var settlementCallsByCopyNumber: [UInt64: StoreCall<[UInt8]>] = [:]
    private var lastCopyNumber: UInt64 = 0
    /// The numbers of copies that the producer never got, although their commands were reopened, or may have been.
    private var copyNumbersNotProduced: [UInt64] = []
    /// Whether the sending ended before all commands were sent.
    private(set) var isStopped = false
    /// How many reopened commands without a copy in Kafka could not be settled again, and why the calls failed. Redis
    /// may still treat these commands as under way. Nil: there are none.
    private(set) var settlementFailure: (count: Int, reason: RedisError)?
    /// The bundle id of each configured app.
    private let bundleIds: [[UInt8]]
    /// What Redis warned of. Set by `finish`.
    private(set) var redisWarnings: [RedisWarning] = []

    init(_ configuration: WorkerConfiguration, redis: RedisConfiguration, topic: String, commandsPerSecond: Double)
        throws
    {
        self.redis = redis
        sourceTopic = topic
        bundleIds = configuration.apps.map { Array($0.bundleId.utf8) }
        let producer = try Producer(properties: Self.deliveryTimeoutProperties + configuration.kafka.producerProperties)
        sender = try RecordSender(
            producer: producer,
            topic: configuration.kafka.topics.commands,
            recordsPerSecond: commandsPerSecond
        )
    }

    /// Waits until the rate allows the command, and writes it. If the command must be sent again although Redis has
    /// settled its version (`sendAgain`), first reopens the version, so that Redis admits the copy.
    ///
    /// - Returns: the decision's verdict, or another verdict if a worker has admitted this command or a newer one since
    ///   the decision. Nil if the sending ended before the command was written.
    mutating func send(_ decision: ReplayDecision, until isCancelled: () -> Bool) throws -> ReplayVerdict? {
        guard sender.waitForRateLimit(until: isCancelled), tally.failedCount < Self.failuresMax else {
            isStopped = true
            return nil
        }
        let candidate = decision.candidate
        var copyNumber: UInt64?
        if decision.verdict.reason == .sendAgain {
            lastCopyNumber += 1
            copyNumber = lastCopyNumber
            let verdict = try reopen(decision, copyNumber: lastCopyNumber, until: isCancelled)
            guard verdict == .retry else {
                return ReplayVerdict(reason: verdict == .duplicate ? .duplicate : .superseded)
            }
        }
        let origin = RecordOrigin(
            topic: sourceTopic,
            partition: candidate.partition,
            offset: candidate.offset,
            timestampMilliseconds: candidate.timestampMilliseconds
        )
        let key = candidate.key ?? RecordKey.key(of: candidate.value)
        guard sender.send(candidate.value, key: key, origin: origin, tag: copyNumber ?? 0, until: isCancelled) else {
            if let copyNumber { copyNumbersNotProduced.append(copyNumber) }
            isStopped = true
            return nil
        }
        return decision.verdict
    }

    /// Reopens a settled version in Redis. The verdict `retry` means that Redis now admits a copy of the command.
    private mutating func reopen(
        _ decision: ReplayDecision,
        copyNumber: UInt64,
        until isCancelled: () -> Bool
    ) throws -> StoreVerdict {
        let store = try store ?? BlockingStore(configuration: redis)
        self.store = store
        let app = bundleIds[decision.appIndex]
        let activity = ActivityKey.activity(ofKey: decision.redisKey, app: app)
        let subject = StoreSubject(app: app, kind: .activity, identifier: activity)
        let version = decision.candidate.version
        let settlement = StoreCall<[UInt8]>.Operation
            .settle(
                version: version,
                .notShown,
                digest: 0,
                retirement: nil
            )
        settlementCallsByCopyNumber[copyNumber] = StoreCall(tag: 0, subject: subject, operation: settlement)
        do throws(RedisError) {
            let call = StoreCall<[UInt8]>(tag: 0, subject: subject, operation: .reopen(version: version))
            let verdict = try store.perform([call], until: isCancelled)[0].verdict
            if verdict != .retry { settlementCallsByCopyNumber[copyNumber] = nil }
            return verdict
        } catch {
            // Redis may have reopened the version although the call failed. So let `finish` settle the version again.
            // If Redis did not reopen the version, this does no harm.
            copyNumbersNotProduced.append(copyNumber)
            isStopped = true
            throw error
        }
    }

    /// Waits for Kafka's acknowledgements of the copies. If the copy of a reopened command is not in Kafka, settles the
    /// command's version in Redis again. Otherwise Redis would treat the command as under way, and another replay would
    /// not send it.
    ///
    /// - Parameter isStoppingAtOnce: whether the user has asked to stop, or a failure has ended the sending. If so, the
    ///   waits for Kafka and Redis take at most a few seconds.
    mutating func finish(isStoppingAtOnce: Bool) {
        let flushTimeoutMilliseconds =
            isStoppingAtOnce ? Self.stopFlushTimeoutMilliseconds : RecordSender.flushTimeoutMilliseconds
        let calls =
            (copyNumbersNotProduced
            + sender.flushAndClose(flushTimeoutMilliseconds: flushTimeoutMilliseconds).failedTags)
            .compactMap { settlementCallsByCopyNumber[$0] }
        do throws(RedisError) {
            if !calls.isEmpty { _ = try store?.perform(calls, until: { isStoppingAtOnce }) }
        } catch {
            settlementFailure = (calls.count, error)
        }
        redisWarnings = store?.warnings ?? []
        store?.close()
        store = nil
    }

    var tally: RecordSender.Tally { sender.tally }

    var summaryLine: String {
        let seconds = String(format: "%.3f", sender.elapsedSeconds)
        return """
            \(tally.attemptedCount) sent, \(tally.acknowledgedCount) acknowledged, \(tally.failedCount) failed, \
            \(seconds) s
            """
    }

    var json: JSONValue {
        .object([
            "sent": .integer(Int64(tally.attemptedCount)),
            "acknowledged": .integer(Int64(tally.acknowledgedCount)),
            "failed": .integer(Int64(tally.failedCount)),
        ])
    }
}
