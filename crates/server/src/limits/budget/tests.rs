use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn budget(max: usize, max_of_a_client: usize) -> Arc<Budget> {
    let exempt = vec!["10.0.0.0/8".parse().unwrap()];
    Budget::new(BudgetLimits { max, max_of_a_client, reserved: 0, exempt, least_idle: SECOND })
}

#[test]
fn claims_are_given_back() {
    let budget = budget(4, 2);
    let claim = |amount, from| budget.claim(amount, address(from));
    let first = claim(1, "192.0.2.1").unwrap();
    let second = claim(1, "192.0.2.1").unwrap();
    assert_eq!(claim(1, "192.0.2.1").unwrap_err(), Refused::ClientHasEnough);
    let exempt = claim(1, "10.1.1.1").unwrap();
    exempt.grow(2).unwrap();
    assert_eq!(exempt.grow(3).unwrap_err(), Refused::Full);
    assert_eq!(claim(1, "10.1.1.1").unwrap_err(), Refused::Full);
    drop(first);
    assert_eq!(claim(1, "192.0.2.2").map(drop), Ok(()));
    drop((second, exempt));
    let state = budget.state();
    assert_eq!((state.taken, state.clients.len()), (0, 0));
}

/// Two clients hold everything and are silent; a third one wants a claim.
#[test]
fn the_idlest_of_who_holds_the_most_goes_first() {
    let budget = budget(5, 4);
    let at = |seconds: u32| seconds * SECOND;
    let held: Vec<Claim> = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"]
        .iter()
        .map(|from| budget.claim_at(1, address(from), at(0)).unwrap())
        .collect();
    // All of them are working.
    let come = |seconds| budget.claim_at(1, address("192.0.2.3"), at(seconds));
    assert_eq!(come(100).unwrap_err(), Refused::Full);
    // The idlest is of the client that has less.
    for (claim, since) in held.iter().zip([8, 7, 9, 1, 2]) {
        claim.waits_at(at(since));
    }
    let cut = || held.iter().map(Claim::is_cut).collect::<Vec<_>>();
    let new = come(10).unwrap();
    assert_eq!(cut(), [false, true, false, false, false]);
    assert_eq!(budget.taken(), 5);
    drop(new);
    // Working claims stay, and so do those that have only just become idle.
    held[0].works();
    held[2].waits_at(at(20));
    held[3].works();
    held[4].waits_at(at(20) + SECOND / 2);
    let _new = come(20).unwrap();
    assert_eq!(come(20).unwrap_err(), Refused::Full);
    let _other = come(21).unwrap();
    assert_eq!(cut(), [false, true, true, false, false]);
    drop(held);
    assert_eq!(budget.taken(), 2);
}

#[test]
fn who_holds_far_more_is_cut_at_once() {
    let budget = budget(4, 4);
    let held: Vec<Claim> = (0..4).map(|_| budget.claim(1, address("192.0.2.1")).unwrap()).collect();
    held[3].waits_at(SECOND);
    let own = budget.claim_at(1, address("192.0.2.1"), SECOND);
    assert_eq!(own.unwrap_err(), Refused::Full, "its own is not idle for long enough");
    let _new = budget.claim_at(1, address("192.0.2.2"), SECOND).unwrap();
    assert!(held[3].is_cut());
}

#[test]
fn a_client_makes_room_for_itself_within_its_share() {
    let budget = budget(9, 2);
    let mine: Vec<Claim> = (0..2).map(|_| budget.claim(1, address("192.0.2.1")).unwrap()).collect();
    let other = budget.claim(5, address("192.0.2.2")).unwrap();
    other.waits_at(Duration::ZERO);
    mine[1].waits_at(Duration::ZERO);
    let _new = budget.claim_at(1, address("192.0.2.1"), 2 * SECOND).unwrap();
    assert_eq!((mine[1].is_cut(), other.is_cut()), (true, false));
}

/// No claim is idle, and two clients want the whole budget.
#[test]
fn who_holds_nothing_has_a_part_of_its_own() {
    let exempt = vec!["10.0.0.0/8".parse().unwrap()];
    let budget =
        Budget::new(BudgetLimits { max: 8, max_of_a_client: 8, reserved: 2, exempt, least_idle: SECOND });
    let claim = |from| budget.claim(1, address(from));
    let held: Vec<Claim> =
        (0..6).map(|number| claim(["192.0.2.1", "192.0.2.2"][number % 2]).unwrap()).collect();
    assert_eq!(claim("192.0.2.1").unwrap_err(), Refused::Full);
    let first = claim("192.0.2.3").unwrap();
    assert_eq!(claim("192.0.2.3").unwrap_err(), Refused::Full, "it holds something now");
    let second = claim("192.0.2.4").unwrap();
    assert_eq!(claim("192.0.2.5").unwrap_err(), Refused::Full);
    drop((first, second));
    let exempt = [claim("10.0.0.1").unwrap(), claim("10.0.0.1").unwrap()];
    drop(exempt);
    // Its own idle claim makes room; another client's only if that is the idlest of the client that holds the
    // most.
    held[0].waits_at(Duration::ZERO);
    let _new = budget.claim_at(1, address("192.0.2.1"), 2 * SECOND).unwrap();
    assert!(held[0].is_cut());
}

#[test]
fn of_memory_what_cost_the_most_goes_first() {
    let budget = budget(100, 100);
    let from = address("10.0.0.1");
    let (large, small) = (budget.claim(60, from).unwrap(), budget.claim(20, from).unwrap());
    large.waits_at(8 * SECOND);
    small.waits_at(5 * SECOND);
    let new = budget.claim_at(1, from, 10 * SECOND).unwrap();
    new.grow_at(30, 10 * SECOND).unwrap();
    assert_eq!((large.is_cut(), small.is_cut()), (true, false));
    // It does not cut itself.
    new.waits_at(Duration::ZERO);
    assert_eq!(new.grow_at(101, 10 * SECOND), Err(Refused::Full));
    assert!(!new.is_cut() && small.is_cut());
    assert_eq!(budget.taken(), 30);
}

#[test]
fn holders_are_woken() {
    let budget = budget(1, 1);
    let held = budget.claim(1, address("192.0.2.1")).unwrap();
    held.waits_at(Duration::ZERO);
    let cut = held.cut();
    let _new = budget.claim_at(1, address("192.0.2.2"), 2 * SECOND).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(cut);
    runtime.block_on(held.cut());
    assert_eq!(held.grow(2), Err(Refused::Full));
}

/// Waiting claims get what is released: the first that fits, and not those that were dropped.
#[test]
fn who_waits_goes_in_order() {
    let limits = BudgetLimits { max: 16, max_of_a_client: 16, reserved: 4, ..BudgetLimits::default() };
    let budget = Budget::new(limits.clone());
    let claim = |from: &str| budget.claim(1, address(from)).unwrap();
    let mut greedy: Vec<Claim> = (0..12).map(|_| claim("192.0.2.1")).collect();
    let others: Vec<Claim> = (2..6).map(|last| claim(&format!("192.0.2.{last}"))).collect();
    let wait = |from: &str| budget.wait(1, address(from));
    let mut first = wait("192.0.2.1").unwrap();
    let gone = wait("192.0.2.7").unwrap();
    let mut second = wait("192.0.2.8").unwrap();
    let mut third = wait("192.0.2.9").unwrap();
    drop(gone);
    drop(greedy.pop());
    first.try_recv().expect_err("what is left is for others");
    let second = second.try_recv().unwrap();
    third.try_recv().expect_err("there is nothing left");
    drop(second);
    let third = third.try_recv().unwrap();
    drop((others, third));
    let _first = first.try_recv().unwrap();
    // No client fills the queue alone.
    let mut line = Vec::new();
    let _all: Vec<Claim> = (10..).map_while(|last| budget.claim(1, [192, 0, 2, last].into()).ok()).collect();
    while let Some(waiting) = wait("192.0.2.1") {
        line.push(waiting);
    }
    assert_eq!(line.len(), 3);
    let mut other = wait("192.0.2.99").unwrap();
    drop(line);
    budget.set(BudgetLimits { max: 100, max_of_a_client: 100, ..limits });
    let _other = other.try_recv().unwrap();
    drop(wait("192.0.2.99").unwrap());
}

#[test]
fn patience_ends() {
    let budget = budget(1, 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let held = budget.claim(1, address("192.0.2.1")).unwrap();
        let soon = |from, patience| budget.claim_soon(1, address(from), patience);
        assert_eq!(soon("192.0.2.2", Duration::ZERO).await.unwrap_err(), Refused::Full);
        let (waited, ()) = tokio::join!(soon("192.0.2.2", 600 * SECOND), async {
            tokio::task::yield_now().await;
            drop(held);
        });
        let _held = waited.unwrap();
        assert_eq!(soon("192.0.2.2", Duration::ZERO).await.unwrap_err(), Refused::Full);
    });
    assert_eq!(budget.taken(), 0);
}

/// Remembered searches change nothing: with and without them, the same claims are granted and cut.
#[test]
fn looks_in_vain_are_spared() {
    let mut random = packrace_testkit::Random::new(24);
    let (mut refused, mut spared) = (0, 0);
    for _ in 0..200 {
        let budgets = [(); 2].map(|()| budget(12, 5));
        let mut held: Vec<[Claim; 2]> = Vec::new();
        let mut now = Duration::ZERO;
        for _ in 0..200 {
            // No two wait since the same time, so that it is clear which is cut first.
            now += Duration::from_nanos(1 + random.below(500_000_000) as u64);
            budgets[1].state().forget_none_idle();
            let from = address(["192.0.2.1", "192.0.2.2", "192.0.2.3", "10.0.0.1"][random.below(4)]);
            let amount = 1 + random.below(2);
            let at = random.below(held.len().max(1));
            match (random.below(8), held.get(at)) {
                (0, Some(claims)) => claims.iter().for_each(Claim::works),
                (1..3, Some(claims)) => claims.iter().for_each(|claim| claim.waits_at(now)),
                (3, Some(_)) => drop(held.swap_remove(at)),
                (4, Some(claims)) => {
                    let [with, without] = claims.each_ref().map(|claim| claim.grow_at(amount + 1, now));
                    assert_eq!(with, without);
                }
                _ => {
                    let known = |state: &BudgetState| {
                        let of_client =
                            state.clients.values().any(|of_client| of_client.none_idle_until > now);
                        of_client || state.none_idle.is_some_and(|(until, _)| until > now)
                    };
                    let was_known = known(&budgets[0].state());
                    match budgets.each_ref().map(|budget| budget.claim_at(amount, from, now)) {
                        [Ok(with), Ok(without)] => held.push([with, without]),
                        [Err(with), Err(without)] => {
                            assert_eq!(with, without);
                            refused += 1;
                            spared += usize::from(was_known);
                        }
                        both => panic!("{both:?}"),
                    }
                }
            }
            for [with, without] in &held {
                assert_eq!(with.is_cut(), without.is_cut());
            }
            held.retain(|[claim, _]| !claim.is_cut());
        }
    }
    assert!(spared > refused / 4, "{spared} of {refused}");
}
