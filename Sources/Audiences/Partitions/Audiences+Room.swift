import Delivery
import LiveActivity

/// The offset from which a partition must be read again.
public struct FanoutRereading: Sendable, Equatable, BitwiseCopyable {
    public var offset: Int64
    /// How long the partition stays paused before it is read again.
    public var pauseMilliseconds: Int64
}

/// Decides which fan-out records the core has room for.
///
/// A record without room is passed over: its offset stays unsettled, its body is not kept, and the other
/// records of its partition continue. It is read again when its app has room. So an app whose host is
/// unavailable for hours blocks no other app.
///
/// Later records of the same app in that partition are passed over too, so that no version and no alert
/// overtakes another. Only ranges that are already under way continue.
extension Audiences {
    /// The least time between two readings of a partition.
    private static var rereadingMilliseconds: Int64 { 5_000 }

    /// Whether there is room for a record of this range now.
    func hasRoom(for key: RoundKey, at offset: Int64, of place: UInt32) -> Bool {
        let application = Int(key.application)
        if let round = roundIndex[key] {
            // A newer version replaces the older ones of its range. It must wait for older records of its
            // range that were passed over.
            return offset <= rounds[round].passedOverOffset && mayTakeOver(application)
        }
        guard let partition = partitions[place] else { return false }
        return offset <= partition.pointee.passedOver.lowestOffset(of: key.application) && mayBegin(application)
    }

    /// Whether there is room for a broadcast now. A newer state replaces the one that waits, so a channel has
    /// few records.
    ///
    /// A channel without a slot may get the slot of an idle channel.
    mutating func hasRoomForBroadcast(_ key: BroadcastKey, at offset: Int64, of place: UInt32, now: Moment) -> Bool {
        guard !broadcasts.isFull, let partition = partitions[place],
            offset <= partition.pointee.passedOver.lowestOffset(of: key.application),
            mayTakeOver(Int(key.application))
        else { return false }
        return channelIndex[key] != nil || !channels.isFull || evictIdleChannel(now: now)
    }

    /// Whether an app may begin rounds: only while it uses less room than is free. So there is always room
    /// for another app. (R30)
    private func mayBegin(_ application: Int) -> Bool { !rounds.isFull && holdsLess(application, than: 1) }

    /// Whether an app may add versions to ranges under way: only while it uses less than three times the free
    /// room.
    private func mayTakeOver(_ application: Int) -> Bool { holdsLess(application, than: 3) }

    /// Whether there is enough room to read a partition again.
    private func hasRoomAgain(_ application: Int) -> Bool { !rounds.isFull && holdsLess(application, than: 0.5) }

    /// Whether an app uses less than `times` the free room, in records and in bytes.
    private func holdsLess(_ application: Int, than times: Double) -> Bool {
        let freeRecords = Double(configuration.recordsMax - versions.count - broadcasts.count)
        let freeBytes = Double(configuration.recordBytesMax - recordBytes)
        return Double(queues[application].recordCount) < freeRecords * times
            && Double(queues[application].recordBytes) < freeBytes * times
    }

    /// Passes over a record without room: leaves it unsettled, to be read again when there is room.
    mutating func passOver(_ record: IncomingRecord, _ order: FanoutInstruction, _ key: RoundKey, now: Moment) {
        let offset = record.offset
        partitions[record.partition]?.pointee.passedOver
            .insert(offset, of: key.application, admittedMilliseconds: order.admittedMilliseconds)
        guard let round = roundIndex[key] else { return }
        rounds[round].passedOverOffset = min(rounds[round].passedOverOffset, offset)
        awaitNoPassedOver(round, now: now)
        // Advance the round, because it may have waited for this record.
        if rounds[round].phase == .running { advance(round, now: now) }
    }

    /// Stops waiting for a version that was passed over: the round's own records may occupy the room that
    /// this version needs.
    ///
    /// The windows of the older versions end at the last owner's position, so that these versions settle and
    /// make room.
    mutating func awaitNoPassedOver(_ round: UInt32, now: Moment) {
        guard rounds[round].phase == .awaitingVersions, rounds[round].passedOverOffset < .max else { return }
        closeAllEarly(of: round)
        // If no member is parked, the versions whose records arrived only settle. The version that was passed
        // over continues at the last owner's position.
        //
        // Otherwise the version that was passed over passes through the whole range. Its members that got it
        // before the crash get it once more. A parked member may then get the older state after the newer
        // one; the phone ignores the older state because of its timestamp. The simulation shows this known
        // issue with seeds 1182 (`channels`) and 742 (`ranges`).
        if !isComplete(round) { forgetRestored(round) }
        resumeRound(round, now: now)
    }

    /// Whether all versions whose records have come to a waiting round have reached all of their members.
    private func isComplete(_ round: UInt32) -> Bool {
        let end = readEnd(of: round)
        return end <= rounds[round].watermark && end <= rounds[round].restored.nextParked ?? .max
    }

    /// Returns the number of records that were passed over and not taken since.
    public func passedOver(_ place: UInt32) -> Int { partitions[place]?.pointee.passedOver.count ?? 0 }

    /// Returns from where an assigned partition must be read again; nil if it need not be.
    ///
    /// A partition is read again when there is room for records that were passed over, or after a record that
    /// did not fit the ledger. The shell then calls ``rereadingBegan(_:from:now:)``.
    public func rereading(_ place: UInt32, now: Moment) -> FanoutRereading? {
        guard let partition = partitions[place], partition.pointee.phase == .assigned else { return nil }
        if let cut = partition.pointee.passedOver.cutOffset {
            return FanoutRereading(offset: cut, pauseMilliseconds: Self.rereadingMilliseconds)
        }
        guard partition.pointee.passedOver.count > 0,
            partition.pointee.rereadMilliseconds <= now.monotonicMilliseconds - Self.rereadingMilliseconds,
            let offset = partition.pointee.passedOver.lowestOffset(where: { hasRoomAgain(Int($0)) })
        else { return nil }
        return FanoutRereading(offset: offset, pauseMilliseconds: 0)
    }

    /// Notes that the partition is being read again: its next record is the first from this offset on.
    public mutating func rereadingBegan(_ place: UInt32, from offset: Int64, now: Moment) {
        guard let partition = partitions[place] else { return }
        partition.pointee.passedOver.beginReading(from: offset)
        partition.pointee.rereadMilliseconds = now.monotonicMilliseconds
        for round in 0..<rounds.indexBound where rounds.isInUse(round) {
            guard rounds[round].partition == place, rounds[round].epoch == partition.pointee.epoch,
                rounds[round].passedOverOffset >= offset
            else { continue }
            rounds[round].passedOverOffset = .max
            if awaitsNewerVersion(round) {
                rounds[round].newerMissingSinceMilliseconds = now.monotonicMilliseconds
                advance(round, now: now)
            }
        }
    }

    /// Settles records that were passed over and that the log has deleted since.
    mutating func settleMissing(below offset: Int64, of partition: UnsafeMutablePointer<FanoutPartition>) {
        let end = partition.pointee.ledger.nextOffset
        for missing in partition.pointee.passedOver.read(offset, receivedBelow: end)
        where partition.pointee.passedOver.contains(missing) {
            partition.pointee.passedOver.remove(missing)
            partition.pointee.ledger.settle(missing)
        }
    }
}
