/// Names an element of a slab, or no element (`null`). The type says to which slab the index belongs, so the compiler
/// refuses the index of another slab.
public struct SlabIndex<Element>: BitwiseCopyable, Hashable, Sendable {
    @usableFromInline package let rawValue: UInt32

    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Names no element.
    @inlinable public static var null: Self { Self(rawValue: .max) }

    @inlinable public static func == (first: Self, second: Self) -> Bool { first.rawValue == second.rawValue }
}
