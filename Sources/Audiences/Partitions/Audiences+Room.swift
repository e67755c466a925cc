import Delivery
import LiveActivity

/// From where a partition is to be read again.
public struct FanoutRereading: Sendable, Equatable, BitwiseCopyable {
    public var offset: Int64
    /// How long it is not read meanwhile.
    public var pauseMilliseconds: Int64
}

/// Which fan-out records the core has room for. A record that has none is passed over: it stays in its partition, whose other records go on, and
/// is read again when its app has room. So an app whose host is away for hours holds up no other.
extension Audiences {
    /// A partition is read again no sooner after the last time.
    private static var rereadingMilliseconds: Int64 { 5_000 }

    /// Whether a record may be held now.
    func hasRoom(for key: RoundKey, at offset: Int64, of place: UInt32) -> Bool {
        let application = Int(key.application)
        if let round = roundIndex[key] {
            // What is newer replaces what its range holds. It waits for what was passed over of its range.
            return offset <= rounds[round].passedOverOffset && mayTakeOver(application)
        }
        guard let partition = partitions[place] else { return false }
        return offset <= partition.pointee.passedOver.lowestOffset(of: key.application) && mayBegin(application)
    }

    /// As of ranges. A newer state replaces the one that waits, so that a channel holds few.
    func hasRoomForBroadcast(of application: UInt16, at offset: Int64, of place: UInt32) -> Bool {
        guard !broadcasts.isFull, !channels.isFull, let partition = partitions[place] else { return false }
        return offset <= partition.pointee.passedOver.lowestOffset(of: application) && mayTakeOver(Int(application))
    }

    /// An app may begin rounds as long as it holds less than is free: however much one app holds, the next one finds room.
    private func mayBegin(_ application: Int) -> Bool { !rounds.isFull && holdsLess(application, than: 1) }

    /// In ranges that are under way it may hold three times as much as is free.
    private func mayTakeOver(_ application: Int) -> Bool { holdsLess(application, than: 3) }

    /// Reading a partition again is worth the while.
    private func hasRoomAgain(_ application: Int) -> Bool { !rounds.isFull && holdsLess(application, than: 0.5) }

    /// Whether what an app holds is less than so many times what is free, in records and in bytes.
    private func holdsLess(_ application: Int, than times: Double) -> Bool {
        let freeRecords = Double(configuration.recordsMax - versions.count - broadcasts.count)
        let freeBytes = Double(configuration.recordBytesMax - recordBytes)
        return Double(lines[application].recordCount) < freeRecords * times
            && Double(lines[application].recordBytes) < freeBytes * times
    }

    mutating func passOver(_ record: IncomingRecord, _ order: FanoutOrder, _ key: RoundKey, now: Moment) {
        let offset = record.offset
        partitions[record.partition]?.pointee.passedOver
            .insert(offset, of: key.application, admittedMilliseconds: order.admittedMilliseconds)
        guard let round = roundIndex[key] else { return }
        rounds[round].passedOverOffset = min(rounds[round].passedOverOffset, offset)
        awaitNoPassedOver(round, now: now)
        // It may have stood still for this record.
        if rounds[round].phase == .running { moveOn(round, now: now) }
    }

    /// A round does not wait for a version that was passed over: what it holds meanwhile may be the room that this version needs.
    mutating func awaitNoPassedOver(_ round: UInt32, now: Moment) {
        guard rounds[round].phase == .awaitingVersions, rounds[round].passedOverOffset < .max else { return }
        closeAllEarly(of: round)
        // Without parked members what has come is only settled, and the version that was passed over goes on from where the last owner stood.
        // Else it begins a lap of its own.
        if !isComplete(round) { forgetRestored(round) }
        goOn(round, now: now)
    }

    /// Whether the versions whose records have come to a round that waits for more have reached all of their members.
    private func isComplete(_ round: UInt32) -> Bool {
        let end = readEnd(of: round)
        return end <= rounds[round].watermark && end <= rounds[round].restored.nextParked ?? .max
    }

    /// Records that were passed over and are not taken yet.
    public func passedOver(_ place: UInt32) -> Int { partitions[place]?.pointee.passedOver.count ?? 0 }

    /// From where an assigned partition is to be read again, since there is room for what was passed over, or since a record did not fit its
    /// ledger; nil: from nowhere. If it is done, ``rereadingBegan(_:from:now:)`` is called.
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

    /// The next record that is received of a partition is the first from this offset on.
    public mutating func rereadingBegan(_ place: UInt32, from offset: Int64, now: Moment) {
        guard let partition = partitions[place] else { return }
        partition.pointee.passedOver.beginReading(from: offset)
        partition.pointee.rereadMilliseconds = now.monotonicMilliseconds
        for round in 0..<rounds.indexBound where rounds.isInUse(round) {
            guard rounds[round].partition == place, rounds[round].epoch == partition.pointee.epoch,
                rounds[round].passedOverOffset >= offset
            else { continue }
            rounds[round].passedOverOffset = .max
            if isBehind(round) {
                rounds[round].behindSinceMilliseconds = now.monotonicMilliseconds
                moveOn(round, now: now)
            }
        }
    }

    /// Records that were passed over and that the log has no more count as settled.
    mutating func settleMissing(below offset: Int64, of partition: UnsafeMutablePointer<FanoutPartition>) {
        let end = partition.pointee.ledger.nextOffset
        for missing in partition.pointee.passedOver.read(offset, receivedBelow: end)
        where partition.pointee.passedOver.contains(missing) {
            partition.pointee.passedOver.remove(missing)
            partition.pointee.ledger.settle(missing)
        }
    }
}
