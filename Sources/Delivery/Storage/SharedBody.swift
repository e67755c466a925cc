import LiveActivity

/// The bytes of a request's body, or of a record that goes to the dead letters as it came. Records may hold the same ones.
///
/// One state goes to each activity that follows a match, so that their bodies are the same byte for byte: however many of them wait, the
/// bytes lie in memory once.
///
/// What must hold: bytes are changed only while they have one holder (`Delivery.ownBody`); each holder releases them once.
struct SharedBody: BitwiseCopyable {
    /// How many hold the bytes stands in front of them.
    private static var headerBytes: Int { 16 }

    private let block: Arena.Block
    let count: Int

    /// Of a record without a body.
    static var none: SharedBody { SharedBody(block: .none, count: 0) }

    fileprivate init(_ count: Int, in arena: inout Arena) {
        self.init(block: arena.allocate(Self.headerBytes + count), count: count)
        holders = 1
    }

    private init(block: Arena.Block, count: Int) {
        self.block = block
        self.count = count
    }

    private var holders: UInt32 {
        get { block.base.load(as: UInt32.self) }
        nonmutating set { block.base.storeBytes(of: newValue, as: UInt32.self) }
    }

    private var isNone: Bool { block.isNone }
    fileprivate var isShared: Bool { !isNone && holders > 1 }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(room) }

    /// The same, to be written by their only holder.
    fileprivate var room: UnsafeMutableRawBufferPointer {
        isNone
            ? UnsafeMutableRawBufferPointer(start: nil, count: 0)
            : UnsafeMutableRawBufferPointer(start: block.base + Self.headerBytes, count: count)
    }

    /// One more holder.
    fileprivate func held() -> SharedBody {
        guard !isNone else { return self }
        // There are not as many records as this can count.
        holders += 1
        return self
    }

    fileprivate func release(to arena: inout Arena) {
        guard !isNone else { return }
        precondition(holders > 0, "a body was released more often than it was held")
        holders -= 1
        if holders == 0 { arena.free(block) }
    }
}

/// The body that was laid out last, as long as Apple's dictionary is the one that it was laid out from.
struct RepeatedBody: BitwiseCopyable {
    fileprivate var body = SharedBody.none
    fileprivate var layout = Body.Layout.none
    /// Of `RepeatedAps`; 0 is none.
    fileprivate var dictionary: UInt64 = 0
}

extension Delivery {
    mutating func release(_ body: SharedBody) { body.release(to: &arena) }

    /// Bytes of its own, copied: of a record that goes to the dead letters, or of a body that is to be changed.
    mutating func makeBody(copying bytes: UnsafeRawBufferPointer) -> SharedBody {
        let body = SharedBody(bytes.count, in: &arena)
        body.room.copyMemory(from: bytes)
        return body
    }

    /// Lays out the body of a record's command.
    mutating func setBody(of record: UInt32, to command: Command, from value: UnsafeRawBufferPointer) {
        let body = SharedBody(command.bodyCount, in: &arena)
        records[record].layout = Body.write(command, from: value, into: body.room)
        records[record].body = body
    }

    /// The same of a command that was decoded just now with `lastAps`: it holds the last one's body, if that is the same.
    mutating func setRepeatableBody(of record: UInt32, to command: Command, from value: UnsafeRawBufferPointer) {
        let last = lastBody
        if last.dictionary == lastAps.dictionary,
            isEqual(last.layout.members.bytes(in: last.body.bytes), command.payloadMembers.bytes(in: value))
        {
            records[record].layout = last.layout
            records[record].body = last.body.held()
            return
        }
        setBody(of: record, to: command, from: value)
        lastBody.body.release(to: &arena)
        lastBody = RepeatedBody(
            body: records[record].body.held(),
            layout: records[record].layout,
            dictionary: lastAps.dictionary
        )
    }

    /// Puts another command's alert, for which there is room, into a record's body.
    mutating func write(_ alert: UnsafeRawBufferPointer, of version: Version, intoBodyOf record: UInt32) {
        let (old, layout) = (records[record].body, records[record].layout)
        let body = SharedBody(Body.count(old.bytes, layout, carryingAlertOf: alert.count), in: &arena)
        records[record].layout = Body.write(old.bytes, layout, carrying: alert, into: body.room)
        records[record].foreignAlert = version
        records[record].body = body
        old.release(to: &arena)
    }

    /// A record's body to be changed: its own, a copy if it was not.
    mutating func ownBody(of record: UInt32) -> UnsafeMutableRawBufferPointer {
        let body = records[record].body
        guard body.isShared else { return body.room }
        let own = makeBody(copying: body.bytes)
        records[record].body = own
        body.release(to: &arena)
        return own.room
    }
}
