/// What a call is about. An activity and a device with the same id are two subjects.
@frozen
public struct StoreSubject<Bytes> {
    /// The app's bundle id.
    public var app: Bytes
    public var kind: StoreSubjectKind
    /// The activity's or the device's id.
    public var identifier: Bytes

    @inlinable
    public init(app: Bytes, kind: StoreSubjectKind, identifier: Bytes) {
        self.app = app
        self.kind = kind
        self.identifier = identifier
    }
}

public enum StoreSubjectKind: UInt8, Sendable, BitwiseCopyable {
    case activity
    case device
}

extension StoreSubject: Equatable where Bytes: Equatable {}
